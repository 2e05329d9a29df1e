// SPDX-License-Identifier: Apache-2.0
#include "regress/kernel_ridge.h"

#include "base/random.h"
#include "base/rows.h"
#include "base/wording.h"
#include "compute/kernel.h"
#include "compute/lapack.h"
#include "compute/products.h"
#include "regress/ridge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace kedge {
namespace {

// The first rows choose all three; more rows then choose width and strength again, which depend on how many there are.
constexpr std::size_t kFirstRows = 1000, kMoreRows = 3000;
// Enough rows to tell how well a map does; the errors of all would take as long as the map itself.
constexpr std::size_t kMostJudged = 2000;

struct KernelChoice {
  double width = 0, strength = 0, whitening = 0;
};

/// These rows, or `most` of them, evenly spread.
std::vector<std::size_t> pick_spread(std::span<const std::size_t> rows, std::size_t most) {
  const std::size_t count = std::min(rows.size(), most);
  std::vector<std::size_t> picked(count);
  for (std::size_t i = 0; i < count; ++i) picked[i] = rows[i * rows.size() / count];
  return picked;
}

/// What each eigenvector of a covariance is multiplied by to whiten the space partly, keeping its mean variance.
Eigen::RowVectorXd whitening_scale(std::span<const double> variances, double whitening) {
  const auto values = as_eigen(variances);
  return (values.array() / values.mean()).pow(-whitening / 2);
}

constexpr std::array kWidths{0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0};
constexpr std::array kStrengths{1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0};
constexpr std::array kWhitenings{0.0, 0.25, 0.5, 1.0};

// Errors of all outputs are summed, so that a few random mixtures of them tell as much.
constexpr std::size_t kMixtures = 64;
// A smaller gain is noise, and not worth a step towards a system that is worse conditioned.
constexpr double kBetter = 1 - 1e-4;
// The error says little about the whitening, so the usual one stays unless another is clearly better. Half-whitened
// rows find the same row of another space more often, but translations are better from less.
constexpr double kClearlyBetter = 0.97;
constexpr double kQuarter = 0.25;

// Half of the way, on a scale of logarithms, to the variance that is lost: all of it would be mostly noise. A direction
// of which less than the least is kept is nothing else.
constexpr double kRestored = 0.5, kLeastKept = 0.05;
// Multiplications of an eigendecomposition, relative to the cube of its size.
constexpr double kEigenWork = 5;

// Above this, a map would no longer be the same to 1e-5 wherever it is computed.
constexpr double kMostRounding = 1e-4;

// How many errors the choice computes with the first and with more rows, as seen on real embeddings.
constexpr double kFirstSteps = 16, kMoreSteps = 6;

using Place = std::array<std::size_t, 3>;  // on the grids
using Step = std::array<int, 3>;
constexpr std::size_t kWhitening = 0, kWidth = 1, kStrength = 2;

/// Values of one axis: those of the grid, or the one that was given.
std::vector<double> axis(std::span<const double> grid, const std::optional<double>& given) {
  return given ? std::vector{*given} : std::vector<double>(grid.begin(), grid.end());
}

Matrix64 mix_outputs(Matrix64 residuals) {
  if (residuals.cols() <= kMixtures) return residuals;
  Random random(0);
  Matrix64 weights(residuals.cols(), kMixtures), mixed(residuals.rows(), kMixtures);
  for (double& weight : weights.cells()) weight = random.normal();
  set_product(mixed.view(), residuals.view(), weights.view());
  return mixed;
}

/// The leave-one-out errors of some of the support rows.
class Sample {
 public:
  Sample(const KernelTask& task, const Matrix64& residuals, std::span<const std::size_t> rows, std::size_t most,
         std::array<std::vector<double>, 3> axes)
      : task_(task), axes_(std::move(axes)) {
    const std::vector<std::size_t> positions = pick_spread(rows, most);
    residuals_ = mix_outputs(pick_rows(residuals.view(), positions));
    const Matrix64 picked = pick_rows(task.support, positions);
    const EigenRows<double> centred = as_eigen(picked.view()).rowwise() - as_eigen(std::span(task.coordinates.mean));
    rotated_ = product(centred, as_eigen(task.coordinates.vectors.view()).transpose());
  }

  [[nodiscard]] double error(const Place& place) {
    const auto known = errors_.find(place);
    return known != errors_.end() ? known->second : errors_[place] = compute(place);
  }

  /// The place where no neighbour is better. If errors are cheap, it also looks across the corners, as the valley may
  /// lie askew, and then at another whitening, which needs new products.
  Place descend(Place place, bool cheap) {
    constexpr std::array<Step, 4> kAlong{{{0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}}};
    constexpr std::array<Step, 4> kAcross{{{0, 1, 1}, {0, 1, -1}, {0, -1, 1}, {0, -1, -1}}};
    constexpr std::array<Step, 2> kWhiter{{{1, 0, 0}, {-1, 0, 0}}};
    for (;;) {
      std::optional<Place> next = better_neighbour(place, kAlong, kBetter);
      if (!next && cheap) next = better_neighbour(place, kAcross, kBetter);
      if (!next && cheap) next = better_neighbour(place, kWhiter, kClearlyBetter);
      if (!next) return place;
      place = *next;
    }
  }

 private:
  std::optional<Place> better_neighbour(const Place& place, std::span<const Step> steps, double factor) {
    std::optional<Place> best;
    double least = factor * error(place);
    for (const Step& step : steps) {
      const std::optional<Place> other = step_from(place, step);
      if (!other || !(error(*other) < least)) continue;
      least = error(*other);
      best = other;
    }
    return best;
  }

  /// None if the grid ends.
  std::optional<Place> step_from(Place place, const Step& step) const {
    for (std::size_t i = 0; i < place.size(); ++i) {
      if (step[i] < 0 && place[i] == 0) return {};
      place[i] += static_cast<std::size_t>(step[i]);
      if (place[i] >= axes_[i].size()) return {};
    }
    return place;
  }

  double compute(const Place& place) {
    use_whitening(place[kWhitening]);
    const auto rows = static_cast<double>(residuals_.rows());
    if (!system_->factor(axes_[kWidth][place[kWidth]], axes_[kStrength][place[kStrength]] * rows))
      return std::numeric_limits<double>::infinity();
    Matrix64 solution = residuals_;
    system_->solve(solution.view());
    const std::vector<double> diagonal = system_->inverse_diagonal(all_);
    double sum = 0;
    for (std::size_t i = 0; i < diagonal.size(); ++i) {
      sum += as_eigen(solution.row(i)).squaredNorm() / (diagonal[i] * diagonal[i]);
    }
    if (task_.tell) task_.tell(choice_work(residuals_.rows(), static_cast<std::size_t>(rotated_.cols())));
    sum *= 1 + std::pow(rounding(solution, axes_[kWidth][place[kWidth]]) / kMostRounding, 4);
    return std::isfinite(sum) ? sum : std::numeric_limits<double>::infinity();
  }

  /// A map's largest rounding error in float32, relative to the targets: coefficients that cancel leave few digits.
  double rounding(const Matrix64& solution, double width) const {
    const double spread = as_eigen(residuals_.view()).norm() / std::sqrt(static_cast<double>(residuals_.rows()));
    constexpr double kDigits = std::numeric_limits<float>::epsilon() / 2;
    const double size = kDigits * std::min(1.0, width) * std::exp(-width) * as_eigen(solution.view()).norm();
    return spread > 0 ? size / spread : 0;
  }

  /// Rotations change no products, so f may stay in the basis of the eigenvectors.
  void use_whitening(std::size_t index) {
    if (system_ && index == whitening_) return;
    whitening_ = index;
    EigenRows<double> scaled = rotated_;
    scaled.array().rowwise() *= whitening_scale(task_.coordinates.values, axes_[kWhitening][index]).array();
    // In float32, as a map keeps them: what is solved is then what is applied.
    const Matrix unit = unit_rows(view_of(scaled));
    system_.reset();
    system_ = make_kernel_system(unit.view(), task_.device);
    all_.resize(unit.rows());
    std::iota(all_.begin(), all_.end(), std::size_t{0});
  }

  const KernelTask& task_;
  std::array<std::vector<double>, 3> axes_;
  Matrix64 residuals_;
  EigenRows<double> rotated_;
  std::unique_ptr<KernelSystem> system_;
  std::size_t whitening_ = 0;
  std::vector<std::size_t> all_;
  std::map<Place, double> errors_;
};

/// The width, strength and whitening with the least leave-one-out error, unless the options give them: a search on a
/// grid. The error is smooth in the logarithms of width and strength and has one valley, so that walking downhill from
/// the middle needs a tenth of the evaluations. A few rows choose first, then more of them. `residuals` are the centred
/// targets; `rows` lists each distinct row once, because a row that is there twice predicts itself.
KernelChoice choose_kernel(const KernelTask& task, const Matrix64& residuals, std::span<const std::size_t> rows,
                           const KernelOptions& options) {
  const std::array axes{axis(kWhitenings, options.whitening), axis(kWidths, options.width),
                        axis(kStrengths, options.strength)};
  const auto usual = std::ranges::find(kWhitenings, task.translates ? kQuarter : kHalf) - kWhitenings.begin();
  Place place{static_cast<std::size_t>(usual), kWidths.size() / 2, kStrengths.size() / 2 - 1};
  for (std::size_t i = 0; i < place.size(); ++i) place[i] = std::min(place[i], axes[i].size() - 1);
  const bool open = axes[0].size() + axes[1].size() + axes[2].size() > axes.size();
  if (open) {
    place = Sample(task, residuals, rows, kFirstRows, axes).descend(place, true);
    if (rows.size() > kFirstRows) place = Sample(task, residuals, rows, kMoreRows, axes).descend(place, false);
  }
  return {axes[kWidth][place[kWidth]], axes[kStrength][place[kStrength]], axes[kWhitening][place[kWhitening]]};
}

/// Sigma_lambda^(-w/2), scaled so that it keeps the mean variance.
Matrix64 whitener_of(const Whitening& coordinates, double whitening) {
  const auto vectors = as_eigen(coordinates.vectors.view());
  EigenRows<double> scaled = vectors;
  scaled.array().colwise() *= whitening_scale(coordinates.values, whitening).transpose().array();
  Matrix64 whitener(coordinates.vectors.cols(), coordinates.vectors.cols());
  set_product(whitener.view(), vectors.transpose(), scaled);
  return whitener;
}

/// f of the support.
Matrix features_of(const KernelTask& task, const Matrix64& whitener) {
  EigenRows<double> rows = as_eigen(task.support).rowwise() - as_eigen(std::span(task.coordinates.mean));
  if (whitener.rows() != 0) rows = product(rows, whitener.view());
  return unit_rows(view_of(rows));
}

Matrix64 centred(MatrixView<const double> targets, const Eigen::RowVectorXd& means) {
  return matrix_of<double>(as_eigen(targets).rowwise() - means);
}

/// Rows of which no two are the same, and for each the rows it stands for, itself among them.
struct Distinct {
  std::vector<std::size_t> rows;
  std::vector<std::vector<std::size_t>> alike;  ///< by row; empty for those that another stands for

  Distinct(MatrixView<const double> support, MatrixView<const double> targets) : alike(support.rows) {
    const std::vector<std::size_t> stand_ins = RepeatedRows(support).stand_ins(targets);
    for (std::size_t row = 0; row < stand_ins.size(); ++row) {
      alike[stand_ins[row]].push_back(row);
      if (stand_ins[row] == row) rows.push_back(row);
    }
  }
};

/// [(K + ridge I)^-1]_ii for a row that is left out together with all `count` equal rows. Those differ by the ridge
/// alone, so that their block of the inverse is 1/ridge I + (value - 1/ridge) 1 1^T.
double joint_diagonal(double value, std::size_t count, double ridge) {
  if (count == 1) return value;
  const auto size = static_cast<double>(count);
  return std::max(size * value - (size - 1) / ridge, 1 / (size + ridge));  // a bound that only rounding can pass
}

/// Some rows, each left out: its centred targets, and what the regression then misses of them.
struct LeftOut {
  EigenRows<double> wanted, missed;
};

/// e_i = C_i / [(K + ridge I)^-1]_ii.
LeftOut leave_out(const KernelSystem& system, const Matrix64& solution, const Matrix64& residuals,
                  const Distinct& distinct, double ridge) {
  const std::vector<std::size_t> positions = pick_spread(distinct.rows, kMostJudged);
  const std::vector<double> diagonal = system.inverse_diagonal(positions);
  LeftOut left{as_eigen(residuals.view())(positions, Eigen::all), {}};
  left.missed.setZero(left.wanted.rows(), left.wanted.cols());
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const std::vector<std::size_t>& alike = distinct.alike[positions[i]];
    auto missed = left.missed.row(static_cast<Eigen::Index>(i));
    for (const std::size_t row : alike) missed += as_eigen(solution.row(row)) / static_cast<double>(alike.size());
    missed /= joint_diagonal(diagonal[i], alike.size(), ridge);
  }
  return left;
}

/// How well each output is met at these rows.
void judge(KernelFit& fit, const LeftOut& left) {
  const Eigen::RowVectorXd errors = left.missed.colwise().squaredNorm(), squares = left.wanted.colwise().squaredNorm();
  std::size_t varying = 0;
  fit.r2.assign(static_cast<std::size_t>(squares.size()), 0.0F);
  for (Eigen::Index c = 0; c < squares.size(); ++c) {
    if (!(squares[c] > 0)) continue;
    const double r2 = std::max(-1.0, 1 - errors[c] / squares[c]);
    fit.r2[static_cast<std::size_t>(c)] = static_cast<float>(r2);
    fit.mean_r2 += r2;
    ++varying;
  }
  if (varying > 0) fit.mean_r2 /= static_cast<double>(varying);
  fit.error = squares.sum() > 0 ? errors.sum() / squares.sum() : 0;
}

/// Least squares leaves a direction of the outputs the share of its variance that can be foretold, so that what tells
/// rows apart in a translated space counts for too little. This stretches those directions again.
EigenRows<double> restore_variance(LeftOut left, Device device) {
  constexpr Eigen::Index kLeastRows = 20;  // which can tell a direction from chance
  if (left.wanted.rows() < kLeastRows) return EigenRows<double>::Identity(left.wanted.cols(), left.wanted.cols());
  EigenRows<double>& found = left.missed;
  found = left.wanted - left.missed;
  for (EigenRows<double>* rows : {&found, &left.wanted}) rows->rowwise() -= column_means(*rows);
  Matrix64 gram(static_cast<std::size_t>(found.cols()), static_cast<std::size_t>(found.cols()));
  add_gram(gram.view(), Triangle::upper, view_of(found));
  const Eigenpairs directions = eigh(std::move(gram), device);
  const auto vectors = as_eigen(directions.vectors.view());
  const Eigen::RowVectorXd squares = product(left.wanted, vectors.transpose()).colwise().squaredNorm();
  EigenRows<double> stretched = vectors;
  for (Eigen::Index i = 0; i < squares.size(); ++i) {
    const double kept = squares[i] > 0 ? directions.values[static_cast<std::size_t>(i)] / squares[i] : 0;
    stretched.row(i) *= std::pow(std::clamp(kept, kLeastKept, 1.0), -kRestored / 2);
  }
  return product(vectors.transpose(), stretched);
}

}  // namespace

double choice_work(std::size_t rows, std::size_t dim) {
  const auto n = static_cast<double>(rows);
  return n * n * (n / 3 + static_cast<double>(dim) / 2 + 100);
}

double kernel_work(std::size_t rows, std::size_t dim, std::size_t outputs) {
  const auto n = static_cast<double>(rows);
  const auto judged = static_cast<double>(std::min(rows, kMostJudged));
  const auto values = static_cast<double>(outputs);
  double work = n * n * (n / 6 + judged / 2 + static_cast<double>(dim) / 2 + values) + kEigenWork * std::pow(values, 3);
  work += kFirstSteps * choice_work(std::min(rows, kFirstRows), dim);
  if (rows > kFirstRows) work += kMoreSteps * choice_work(std::min(rows, kMoreRows), dim);
  return work;
}

std::size_t kernel_bytes(std::size_t rows, std::size_t dim, std::size_t outputs) {
  const std::size_t columns = rows + 5 * outputs + 3 * dim;  // of all matrices that have a row for each row
  return checked_mul(checked_mul(rows, columns), sizeof(double));
}

KernelRegression regress_kernel(const KernelTask& task, const KernelOptions& options) {
  require_valid(options);
  Eigen::RowVectorXd means = column_means(task.targets);
  const Matrix64 residuals = centred(task.targets, means);
  const Distinct distinct(task.support, task.targets);
  const KernelChoice choice = choose_kernel(task, residuals, distinct.rows, options);

  KernelRegression result;
  Kernel& kernel = result.kernel;
  Matrix64 whitener;
  if (choice.whitening != 0) {
    whitener = whitener_of(task.coordinates, choice.whitening);
    kernel.whitener = matrix_of<float>(as_eigen(whitener.view()));
  }
  kernel.width = choice.width;
  kernel.rows = features_of(task, whitener);
  const auto system = make_kernel_system(kernel.rows.view(), task.device);
  // Even kLeastStrength is far above what rounding takes from the system, however much alike the rows are.
  const double ridge = choice.strength * static_cast<double>(task.support.rows);
  if (!system->factor(choice.width, ridge)) {
    fail("the system of a kernel holds values that are NaN or infinite");
  }
  Matrix64 solution = residuals;
  system->solve(solution.view());
  result.fit = {choice.width, choice.strength, choice.whitening, {}, 0, 0};
  LeftOut left = leave_out(*system, solution, residuals, distinct, ridge);
  judge(result.fit, left);
  if (task.translates) {
    const EigenRows<double> restored = restore_variance(std::move(left), task.device);
    solution = matrix_of<double>(product(solution.view(), restored));
  }
  if (task.onto != nullptr) {
    whiten(*task.onto, {means.data(), 1, task.targets.cols, task.targets.cols});
    solution = matrix_of<double>(product(solution.view(), task.onto->whitener.view()));
  }

  // exp(g (c - 1)) = exp(-g) (1 + g c + q(g c)): the first two parts become a bias and a weight.
  auto coefficients = as_eigen(solution.view());
  coefficients *= std::exp(-choice.width);
  const EigenRows<double> rows = as_eigen(kernel.rows.view()).cast<double>();
  result.weight = Matrix64(task.targets.cols, task.support.cols);
  set_product(result.weight.view(), coefficients.transpose(), rows, choice.width);
  result.bias.resize(task.targets.cols);
  as_eigen(std::span(result.bias)) = means + column_sums(solution.view());
  kernel.coefficients = matrix_of<float>(coefficients);
  return result;
}

void require_valid(const KernelOptions& options) {
  const auto require = [](std::string_view name, const std::optional<double>& value, double least, double most) {
    if (!value || (*value >= least && *value <= most)) return;
    refuse("{} is {}, expected a number from {} to {}", option_words(name), *value, least, most);
  };
  require("kernel-width", options.width, kLeastWidth, kMostWidth);
  require("kernel-strength", options.strength, kLeastStrength, kMostStrength);
  require("kernel-whitening", options.whitening, 0, 1);
}

}  // namespace kedge
