// SPDX-License-Identifier: Apache-2.0
#include "backend/dense.h"

#include "backend/products.h"
#include "base/eigen.h"

#include <algorithm>

namespace kedge {
namespace {

struct HostCells final : Dense::Cells {
  HostCells(std::size_t rows, std::size_t cols) : Cells(rows, cols), values(rows, cols) {}
  Matrix64 values;
};

Matrix64& of(Dense::Cells& cells) {
  return static_cast<HostCells&>(cells).values;
}
const Matrix64& of(const Dense::Cells& cells) {
  return static_cast<const HostCells&>(cells).values;
}

class HostDense final : public Dense {
 public:
  Owned make(std::size_t rows, std::size_t cols) override { return std::make_unique<HostCells>(rows, cols); }
  void upload(const Matrix64& from, Cells& to) override { of(to) = from; }
  void download(const Cells& from, Matrix64& to) override {
    std::ranges::copy(of(from).cells().first(to.cells().size()), to.cells().begin());
  }
  void multiply(double scale, const Cells& a, const Cells& b, double keep, Cells& to) override {
    if (keep == 0) return set_product(of(to).view(), of(a).view(), of(b).view(), scale);
    as_eigen(of(to).view()) *= keep;
    add_product(of(to).view(), of(a).view(), of(b).view(), scale);
  }
  void multiply_transposed(double scale, const Cells& a, const Cells& b, Cells& to) override {
    set_product(of(to).view(), of(a).view(), as_eigen(of(b).view()).transpose(), scale);
  }
  void add(double scale, const Cells& from, Cells& to) override {
    as_eigen(of(to).view()) += scale * as_eigen(of(from).view());
  }
  double norm(const Cells& cells) override { return as_eigen(of(cells).view()).norm(); }
};

}  // namespace

std::unique_ptr<Dense> make_cpu_dense() {
  return std::make_unique<HostDense>();
}

}  // namespace kedge
