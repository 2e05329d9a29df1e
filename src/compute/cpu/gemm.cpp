// SPDX-License-Identifier: Apache-2.0
#include "compute/cpu/gemm.h"

#include "base/checked.h"
#include "base/eigen.h"
#include "base/parallel.h"
#include "compute/threads.h"

#include <kedge/device.h>

#include <algorithm>

namespace kedge::cpu {
namespace {

constexpr std::size_t kWorthThreads = std::size_t{1} << 22;  // multiplications
constexpr std::size_t kGrain = 16;                           // where the kernels of BLAS like to begin
constexpr unsigned kMostOwn = 8;  // parts for more threads would be narrow, and BLAS shares what it copies of a and b

void multiply(CBLAS_TRANSPOSE turn_a, CBLAS_TRANSPOSE turn_b, std::size_t inner, float alpha, ConstPanel a,
              ConstPanel b, float beta, Panel c, unsigned threads = 1) {
  const BlasCall call(threads);
  cblas_sgemm(CblasRowMajor, turn_a, turn_b, checked_int(c.rows, "rows"), checked_int(c.cols, "columns"),
              checked_int(inner, "the inner size"), alpha, a.data, checked_int(a.stride, "stride"), b.data,
              checked_int(b.stride, "stride"), beta, c.data, checked_int(c.stride, "stride"));
}

/// Rows of a factor as its product sees them.
ConstPanel part(CBLAS_TRANSPOSE turn, ConstPanel p, std::size_t first, std::size_t count) {
  return turn == CblasNoTrans ? p.middle_rows(first, count) : p.columns(first, count);
}

/// A share of `size` for each of the threads.
std::size_t share(std::size_t size, unsigned workers) {
  const std::size_t even = (size + workers - 1) / workers;
  return (even + kGrain - 1) / kGrain * kGrain;
}

unsigned workers_for(std::size_t multiplications) {
  return multiplications < kWorthThreads ? 1 : threads();
}

/// The lower triangle of a a^T and what else its strips reach.
void multiply_lower(ConstPanel a, Panel c) {
  constexpr std::size_t kStrip = 64;
  parallel_blocks(a.rows, kStrip, workers_for(a.rows * a.rows * a.cols / 2), [&] {
    return [&](std::size_t first, std::size_t count) {
      multiply(CblasNoTrans, CblasTrans, a.cols, 1, a.middle_rows(first, count), a.top_rows(first + count), 0,
               c.middle_rows(first, count).columns(0, first + count));
    };
  });
}

}  // namespace

void gemm(CBLAS_TRANSPOSE turn_a, CBLAS_TRANSPOSE turn_b, std::size_t inner, float alpha, ConstPanel a, ConstPanel b,
          float beta, Panel c) {
  if (c.rows == 0 || c.cols == 0) return;
  if (threads() > kMostOwn) return multiply(turn_a, turn_b, inner, alpha, a, b, beta, c, threads());
  const unsigned workers = workers_for(c.rows * c.cols * inner);
  if (c.cols >= c.rows) {
    const CBLAS_TRANSPOSE columns = turn_b == CblasNoTrans ? CblasTrans : CblasNoTrans;
    parallel_blocks(c.cols, share(c.cols, workers), workers, [&] {
      return [&](std::size_t first, std::size_t count) {
        multiply(turn_a, turn_b, inner, alpha, a, part(columns, b, first, count), beta, c.columns(first, count));
      };
    });
  } else {
    parallel_blocks(c.rows, share(c.rows, workers), workers, [&] {
      return [&](std::size_t first, std::size_t count) {
        multiply(turn_a, turn_b, inner, alpha, part(turn_a, a, first, count), b, beta, c.middle_rows(first, count));
      };
    });
  }
}

void gram(ConstPanel a, Panel c) {
  if (threads() > kMostOwn) {
    const BlasCall call;
    cblas_ssyrk(CblasRowMajor, CblasLower, CblasNoTrans, checked_int(a.rows, "rows"), checked_int(a.cols, "columns"), 1,
                a.data, checked_int(a.stride, "stride"), 0, c.data, checked_int(c.stride, "stride"));
  } else {
    multiply_lower(a, c);
  }
  const MatrixView<float> all{c.data, c.rows, c.cols, c.stride};
  as_eigen(all).triangularView<Eigen::StrictlyUpper>() = as_eigen(all).transpose();
}

}  // namespace kedge::cpu
