// SPDX-License-Identifier: Apache-2.0
#include "base/wording.h"
#include "compute/neighbors.h"

namespace kedge {
namespace {

[[noreturn]] void fail_without_faiss(const char* what) {
  fail("{} needs FAISS, which this build of kedge does not include; install libfaiss-dev and build kedge again", what);
}

}  // namespace

bool have_faiss() {
  return false;
}
std::vector<std::size_t> kmeans_clusters(MatrixView<const float>, std::size_t, std::uint64_t) {
  fail_without_faiss("k-means (try fps or random)");
}
std::vector<std::int64_t> nearest_by_inner_product(MatrixView<const float>, MatrixView<const float>, std::size_t) {
  fail_without_faiss("the neighbour search");
}

}  // namespace kedge
