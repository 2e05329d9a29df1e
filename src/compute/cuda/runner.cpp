// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/runner.h"

#include "base/arithmetic.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <type_traits>
#include <utility>

namespace kedge::cuda {
namespace {

// Two halves run beside each other, each with up to three products at once; further ones take turns.
constexpr std::size_t kLanes = 6;

/// Whether one call of cuBLAS can do both.
bool alike(const Product& x, const Product& y) {
  if (!is_aligned(x) || !is_aligned(y)) return false;
  const auto shape = [](const Product& p) {
    return std::array{p.inner, p.a.stride, p.b.stride, p.c.stride, p.c.rows, p.c.cols};
  };
  return x.turn_a == y.turn_a && x.turn_b == y.turn_b && x.alpha == y.alpha && x.beta == y.beta && shape(x) == shape(y);
}

std::size_t work_of(const std::vector<Product>& alike) {
  return alike.size() * alike.front().c.rows * alike.front().c.cols * alike.front().inner;
}

/// Groups of products that are alike, the longest first: if all run at once, the others end before it.
std::vector<std::vector<Product>> groups_of(std::span<const Product> all) {
  std::vector<std::vector<Product>> groups;
  for (const Product& product : all) {
    const auto own = std::ranges::find_if(groups, [&](const auto& group) { return alike(group.front(), product); });
    if (own == groups.end()) {
      groups.push_back({product});
    } else {
      own->push_back(product);
    }
  }
  std::ranges::stable_sort(groups, std::greater{}, work_of);
  return groups;
}

template <class Kind>
concept NeedsScratch = requires(const Kind& operation) {
  scratch_of(operation);
};

}  // namespace

Runner::Runner(Precision precision) : precision_(precision), lanes_(kLanes), range_{0, kLanes}, scratch_(kLanes) {}

double* Runner::scratch(std::size_t count) {
  auto& pieces = scratch_[range_.first];
  if (pieces.empty() || pieces.back().size() < count) pieces.emplace_back(count);
  return pieces.back().data();
}

void Runner::run(const Operation& operation) {
  std::visit([&](const auto& own) { run_alike(std::span(&own, 1)); }, operation);
}

void Runner::run(std::span<const std::vector<Operation>> branches) {
  std::size_t longest = 0;
  for (const auto& branch : branches) longest = std::max(longest, branch.size());
  const auto run_kind = [&]<class Kind>(std::size_t place, std::type_identity<Kind>) {
    std::vector<Kind> all;
    for (const auto& branch : branches) {
      if (place < branch.size() && std::holds_alternative<Kind>(branch[place])) {
        all.push_back(std::get<Kind>(branch[place]));
      }
    }
    if (!all.empty()) run_alike(std::span<const Kind>(all));
  };
  const auto run_kinds = [&]<class... Kinds>(std::size_t place, std::type_identity<std::variant<Kinds...>>) {
    (run_kind(place, std::type_identity<Kinds>{}), ...);
  };
  for (std::size_t place = 0; place < longest; ++place) run_kinds(place, std::type_identity<Operation>{});
}

template <class Kind>
void Runner::run_alike(std::span<const Kind> all) {
  for (; !all.empty(); all = all.subspan(std::min(all.size(), kMostAtOnce))) {
    const auto some = all.first(std::min(all.size(), kMostAtOnce));
    if constexpr (NeedsScratch<Kind>) {
      std::size_t needed = 0;
      for (const Kind& operation : some) needed += scratch_of(operation);
      cuda::run(lane().stream(), some, scratch(needed));
    } else {
      cuda::run(lane().stream(), some);
    }
  }
}

void Runner::run_alike(std::span<const Product> all) {
  const auto groups = groups_of(all);
  const Range own = range_;
  std::vector<std::size_t> lanes(std::min(groups.size(), own.count));
  std::iota(lanes.begin(), lanes.end(), own.first);
  fork(lanes);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    range_.first = lanes[i % lanes.size()];
    multiply_all(groups[i]);
  }
  range_ = own;
  join(lanes);
}

void Runner::multiply_all(std::span<const Product> all) {
  if (all.size() == 1) return multiply(lane(), all.front(), precision_);
  const auto table = [&](auto matrix) {
    std::vector<const void*> of;
    for (const Product& product : all) of.push_back(matrix(product));
    return addresses(of);
  };
  const auto a = table([](const Product& p) -> const void* { return p.a.data; });
  const auto b = table([](const Product& p) -> const void* { return p.b.data; });
  const auto c = table([](const Product& p) -> const void* { return p.c.data; });
  const Product& p = all.front();
  check(cublasGemmBatchedEx(lane().blas(), p.turn_b, p.turn_a, checked_int(p.c.cols, "columns"),
                            checked_int(p.c.rows, "rows"), checked_int(p.inner, "the inner size"), &p.alpha, b,
                            CUDA_R_32F, checked_int(p.b.stride, "stride"), a, CUDA_R_32F,
                            checked_int(p.a.stride, "stride"), &p.beta, const_cast<void**>(c), CUDA_R_32F,
                            checked_int(p.c.stride, "stride"), static_cast<int>(all.size()), compute_type(precision_),
                            CUBLAS_GEMM_DEFAULT),
        "to multiply matrices");
}

/// A table of addresses in the GPU's memory, made once: a graph is recorded after a plain run, so it finds its tables.
const void** Runner::addresses(const std::vector<const void*>& of) {
  const auto known = addresses_.find(of);
  if (known != addresses_.end()) return known->second.data();
  DeviceArray<const void*> table(of.size());
  lane().copy(of.data(), table.data(), of.size());
  lane().wait();
  return addresses_.emplace(of, std::move(table)).first->second.data();
}

void Runner::beside(const std::function<void()>& first, const std::function<void()>& second) {
  const Range own = range_;
  if (own.count < 2) {
    first();
    return second();
  }
  const std::size_t half = own.count / 2;
  const std::size_t lanes[] = {own.first, own.first + half};
  fork(lanes);
  try {
    range_ = {own.first, half};
    first();
    range_ = {own.first + half, own.count - half};
    second();
  } catch (...) {
    range_ = own;
    throw;
  }
  range_ = own;
  join(lanes);
}

/// The others go on from where the first of them is now.
void Runner::fork(std::span<const std::size_t> lanes) {
  if (lanes.size() < 2) return;
  const Lane& from = lanes_[lanes.front()];
  check(cudaEventRecord(from.end(), from.stream()), "to record an event");
  for (const std::size_t lane : lanes.subspan(1)) {
    check(cudaStreamWaitEvent(lanes_[lane].stream(), from.end()), "to wait for an event");
  }
}

/// The first of them goes on when all others are done.
void Runner::join(std::span<const std::size_t> lanes) {
  for (const std::size_t lane : lanes.subspan(std::min<std::size_t>(lanes.size(), 1))) {
    check(cudaEventRecord(lanes_[lane].end(), lanes_[lane].stream()), "to record an event");
    check(cudaStreamWaitEvent(lanes_[lanes.front()].stream(), lanes_[lane].end()), "to wait for an event");
  }
}

}  // namespace kedge::cuda
