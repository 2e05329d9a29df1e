// SPDX-License-Identifier: Apache-2.0
#include "anchors/param/refine.h"

#include "anchors/param/objective.h"
#include "base/random.h"
#include "base/wording.h"
#include "compute/products.h"
#include "regress/ridge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace kedge {
namespace {

/// The matrix, support x dim, that makes the targets' ridge in whitened coordinates: M^T = targets^T regressor.
Matrix regressor_of(Matrix64 support, const Whitening& whitening, const Matrix64& targets) {
  const std::size_t distinct = RepeatedRows(support.view()).distinct(targets.view());
  whiten(whitening, support.view());
  const auto rows = as_eigen(support.view());
  const double share = 1 / static_cast<double>(support.rows());
  Matrix64 gram(support.cols(), support.cols());
  add_gram(gram.view(), Triangle::upper, support.view(), share);
  const Eigen::RowVectorXd means = rows.colwise().mean(), squares = rows.colwise().squaredNorm() * share;
  const double taken = taken_by_centring({means.data(), support.cols()}, {squares.data(), support.cols()});
  const auto basis = make_ridge_basis(decompose_gram(std::move(gram)), support.rows(), 0, taken);
  Matrix64 cross(support.cols(), targets.cols());
  set_product(cross.view(), rows.transpose(), targets.view(), share);
  const double strength = Ridge(basis, cross, spread_of(targets.view()), distinct).best();
  const Matrix64 solved = Ridge(basis, matrix_of<double>(share * rows.transpose()), {}).solve(strength);
  return matrix_of<float>(as_eigen(solved.view()).transpose());
}

/// The regressors of all spaces side by side, support x (sum of dims).
std::unique_ptr<Tensor> upload_regressors(Backend& backend, const RefineSources& sources, const Matrix64& targets,
                                          std::size_t width) {
  auto all = backend.make(targets.rows(), width);
  std::size_t column = 0;
  for (std::size_t i = 0; i < sources.supports.size(); ++i) {
    const Matrix own = regressor_of(sources.supports[i], sources.whitenings[i], targets);
    backend.upload(own.view(), all->panel().columns(column, own.cols()));
    column += own.cols();
  }
  return all;
}

/// The targets while they are refined, transposed: anchors x support.
class Refiner {
 public:
  Refiner(Backend& backend, RefineObjective& objective, const Matrix& start, double rate)
      : backend_(backend),
        objective_(objective),
        number_(backend.make_integers(1)),
        adam_(static_cast<float>(rate), 0.9F, 0.999F, 1e-8F, 0, number_->data()) {
    for (auto* tensor : {&values_, &gradient_, &first_moment_, &second_moment_}) {
      *tensor = backend.make(start.rows(), start.cols());
    }
    backend.upload(start.view(), values_->panel());
  }

  void pass(std::span<const std::uint32_t> rows, std::size_t batch, Random& random) {
    const std::vector<std::size_t> order = random.sample(rows.size(), rows.size());
    for (std::size_t first = 0; first + batch <= order.size(); first += batch) {
      std::vector<std::uint32_t> chosen;
      for (std::size_t i = first; i < first + batch; ++i) chosen.push_back(rows[order[i]]);
      (void)objective_.evaluate(values_->panel(), chosen, gradient_->panel());
      backend_.upload(std::array{++steps_}, *number_);
      backend_.step_values(gradient_->panel(), adam_, values_->panel(), first_moment_->panel(),
                           second_moment_->panel());
    }
  }
  double loss(std::span<const std::uint32_t> rows) { return objective_.evaluate(values_->panel(), rows, {}); }
  void read(Matrix& values) { backend_.download(values_->panel(), values.view()); }

 private:
  Backend& backend_;
  RefineObjective& objective_;
  std::uint32_t steps_ = 0;
  std::unique_ptr<Integers> number_;
  AdamStep adam_;
  std::unique_ptr<Tensor> values_, gradient_, first_moment_, second_moment_;
};

}  // namespace

RefineObjective::RefineObjective(Backend& backend, WhitenedSpaces spaces, ConstPanel regressors, std::size_t anchors,
                                 std::size_t batch, double tau)
    : backend_(backend),
      spaces_(std::move(spaces)),
      regressors_(regressors),
      alignment_(backend, spaces_.dims.size(), batch, anchors, tau),
      ids_(backend.make_integers(batch)),
      x_(backend.make(batch, regressors.cols)),
      anchors_(backend.make(anchors, regressors.cols)),
      danchors_(backend.make(anchors, regressors.cols)),
      losses_(backend.make(1, alignment_.pairs())) {
  for (std::size_t i = 0; i < spaces_.dims.size(); ++i) products_.push_back(backend.make(batch, anchors));
}

/// Calls work(space, its first column, its dim) for all of them, side by side.
void RefineObjective::for_spaces(const std::function<void(std::size_t, std::size_t, std::size_t)>& work) {
  backend_.side_by_side(spaces_.dims.size(), [&](std::size_t i) {
    const auto before = std::span(spaces_.dims).first(i);
    work(i, std::accumulate(before.begin(), before.end(), std::size_t{0}), spaces_.dims[i]);
  });
}

double RefineObjective::evaluate(ConstPanel targets, std::span<const std::uint32_t> rows,
                                 std::optional<Panel> dtargets) {
  const Panel x = x_->panel().top_rows(rows.size());
  backend_.upload(rows, *ids_);
  backend_.fill(losses_->panel(), 0);
  backend_.gather_rows(spaces_.rows->panel(), {ids_->data(), rows.size()}, x);
  backend_.gemm_nn(1, targets, regressors_, 0, anchors_->panel());
  for_spaces([&](std::size_t i, std::size_t first, std::size_t dim) {
    const Panel products = products_[i]->panel().top_rows(rows.size());
    backend_.gemm_nt(1, x.columns(first, dim), anchors_->panel().columns(first, dim), 0, products);
    alignment_.take(i, products);
  });
  alignment_.align(rows.size(), 1, losses_->panel());
  if (dtargets) {
    for_spaces([&](std::size_t i, std::size_t first, std::size_t dim) {
      const Panel products = products_[i]->panel().top_rows(rows.size());
      backend_.fill(products, 0);
      alignment_.give(i, products);
      backend_.gemm_tn(1, products, x.columns(first, dim), 0, danchors_->panel().columns(first, dim));
    });
    backend_.gemm_nt(1, danchors_->panel(), regressors_, 0, *dtargets);
  }
  Matrix losses(1, alignment_.pairs());
  backend_.download(losses_->panel(), losses.view());
  return std::accumulate(losses.cells().begin(), losses.cells().end(), 0.0);
}

RefineRows split_rows(const Space& space, std::span<const std::int64_t> support_ids, std::size_t most, Random& random) {
  std::vector<bool> taken(space.rows());
  for (const std::size_t row : space.find(support_ids)) taken[row] = true;
  const std::size_t count = std::clamp<std::size_t>(space.rows() / 10, 2, most);
  const std::vector<std::size_t> order = random.sample(space.rows(), space.rows());
  RefineRows split;
  std::vector<bool> watched(space.rows());
  for (const bool support : {false, true}) {
    for (const std::size_t row : order) {
      if (split.watched.size() == count || taken[row] != support) continue;
      split.watched.push_back(static_cast<std::uint32_t>(row));
      watched[row] = true;
    }
  }
  for (std::size_t row = 0; row < space.rows(); ++row) {
    if (!watched[row]) split.learned.push_back(static_cast<std::uint32_t>(row));
  }
  return split;
}

void require_refinement(std::size_t spaces, const Refinement& options) {
  if (spaces < 2) {
    refuse("refinement compares spaces with each other, but there is only one; leave {} at 0",
           option_words("refine-epochs"));
  }
  if (!(options.rate > 0) || std::isinf(options.rate)) {
    refuse("{} is {}, expected a positive number", option_words("refine-rate"), options.rate);
  }
  if (!(options.tau >= Backend::kLeastTau) || std::isinf(options.tau)) {
    refuse("{} is {}, expected a number of {} or more", option_words("refine-tau"), options.tau, Backend::kLeastTau);
  }
  if (options.batch < 2) refuse("the batch of the refinement is too small, expected 2 or more");
}

std::size_t refinement_floats(std::span<const std::size_t> dims, std::size_t rows, std::size_t support,
                              std::size_t anchors, std::size_t batch) {
  const std::size_t width = std::accumulate(dims.begin(), dims.end(), std::size_t{0});
  return (rows + support + batch + 2 * anchors) * width + 4 * support * anchors + dims.size() * batch * anchors +
         Alignment::floats_needed(dims.size(), batch, anchors);
}

Refined refine_targets(Backend& backend, const RefineSources& sources, std::span<const Space> rows,
                       std::span<const std::int64_t> support_ids, const Matrix& targets, const Refinement& options,
                       std::uint64_t seed, const Progress& progress) {
  require_refinement(rows.size(), options);
  const Matrix64 exact = matrix_of<double>(as_eigen(targets.view()));
  Matrix turned = matrix_of<float>(as_eigen(targets.view()).transpose());

  constexpr std::uint64_t kOther = 0x9e3779b97f4a7c15ULL;  // a stream other than the one that drew the support
  Random random(seed ^ kOther);
  const RefineRows split = split_rows(rows.front(), support_ids, options.batch, random);
  const std::size_t batch = std::clamp<std::size_t>(split.learned.size(), 1, options.batch);
  std::vector<std::size_t> dims;
  for (const Space& space : rows) dims.push_back(space.dim());
  const std::size_t width = std::accumulate(dims.begin(), dims.end(), std::size_t{0});
  const std::size_t largest = std::max(batch, split.watched.size());
  backend.require_memory(refinement_floats(dims, rows.front().rows(), targets.rows(), targets.cols(), largest),
                         "refinement",
                         fmt::format("give fewer {}, or lower {} or {}", option_words("rows"), option_words("support"),
                                     option_words("anchors")));
  WhitenedSpaces spaces = whiten_spaces(backend, rows, sources.whitenings, progress);
  const auto regressors = upload_regressors(backend, sources, exact, width);
  RefineObjective objective(backend, std::move(spaces), regressors->panel(), turned.rows(), largest, options.tau);
  const double size = std::sqrt(as_eigen(exact.view()).squaredNorm() / static_cast<double>(exact.cells().size()));
  Refiner refiner(backend, objective, turned, options.rate * size);

  Refined result{targets, {refiner.loss(split.watched)}};
  double least = result.losses.front();
  std::size_t best = 0;
  const std::size_t epochs = options.epochs.value_or(0);
  for (std::size_t epoch = 1; epoch <= epochs && epoch <= best + options.patience; ++epoch) {
    refiner.pass(split.learned, batch, random);
    result.losses.push_back(refiner.loss(split.watched));
    if (!std::isfinite(result.losses.back())) {
      fail("refinement diverged in epoch {}; lower {}", epoch, option_words("refine-rate"));
    }
    if (result.losses.back() < least) {
      least = result.losses.back();
      best = epoch;
      refiner.read(turned);
    }
    const std::string detail = fmt::format("loss on held-out rows {:.4f}, best {:.4f}", result.losses.back(), least);
    if (progress) progress({"refining", epoch, epochs, detail});
  }
  as_eigen(result.targets.view()) = as_eigen(turned.view()).transpose();
  return result;
}

}  // namespace kedge
