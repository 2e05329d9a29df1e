// SPDX-License-Identifier: Apache-2.0
#include "regress/wrong_pairs.h"

#include "base/random.h"
#include "base/rows.h"
#include "compute/lapack.h"
#include "compute/products.h"
#include "space/row_sketch.h"

#include <kedge/whitening.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

namespace kedge {
namespace {

// All directions tell wrong pairs no better than so many, which take no time.
constexpr Eigen::Index kProjected = 384;
constexpr std::size_t kDirections = 128;
constexpr double kShrinkage = WhiteningOptions{}.shrinkage;
constexpr double kHalfWhitened = 0.25;  // power of a variance

constexpr std::array kStrengths{0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0};  // relative to the mean eigenvalue
constexpr std::size_t kShuffles = 8;  // random partners of each row, to see how wrong pairs look

constexpr double kMostWrong = 0.9;  // if fewer of the pairs hold, nobody can tell right from wrong

/// Unit rows less their mean, in few directions: the principal ones, each divided by this power of its variance.
EigenRows<double> principal_rows(MatrixView<const double> rows, double power) {
  const EigenRows<double> centred = as_eigen(rows).rowwise() - column_means(rows);
  const Matrix unit = unit_rows(view_of(centred));
  EigenRows<double> cells = project_rows(as_eigen(unit.view()), kProjected).cast<double>();
  cells.rowwise() -= column_means(cells);
  Matrix64 gram(static_cast<std::size_t>(cells.cols()), static_cast<std::size_t>(cells.cols()));
  add_gram(gram.view(), Triangle::upper, view_of(cells), 1 / static_cast<double>(rows.rows));
  const std::size_t directions = std::min<std::size_t>(kDirections, gram.rows());
  const Eigenpairs principal = eigh_largest(std::move(gram), directions);
  EigenRows<double> found = product(cells, as_eigen(principal.vectors.view()).transpose());
  if (power == 0) return found;
  const Eigen::ArrayXd variances = as_eigen(std::span(principal.values)).transpose().array().max(0);
  const Eigen::ArrayXd shrunk = (1 - kShrinkage) * variances + kShrinkage * variances.mean();
  if (shrunk.minCoeff() > 0) found.array().rowwise() *= shrunk.pow(-power).transpose();
  return found;
}

double cosine(const Eigen::RowVectorXd& a, const Eigen::RowVectorXd& b) {
  const double lengths = a.norm() * b.norm();
  return lengths > 0 ? a.dot(b) / lengths : 0;
}

/// A ridge on the pairs that are kept, with an intercept, and what it foretells of rows that it was not fitted on.
class Foretold {
 public:
  Foretold(const EigenRows<double>& x, const EigenRows<double>& y, const std::vector<bool>& wrong) : wrong_(wrong) {
    for (std::size_t i = 0; i < wrong.size(); ++i) {
      if (!wrong[i]) kept_.push_back(i);
    }
    rows_ = x.rowwise() - column_means(EigenRows<double>(x(kept_, Eigen::all)));
    targets_ = y.rowwise() - column_means(EigenRows<double>(y(kept_, Eigen::all)));
    fit();
  }

  /// How alike a row's target and what is foretold of it without its pair are.
  [[nodiscard]] double own(std::size_t i) const {
    if (wrong_[i]) return cosine(found_.row(at(i)), targets_.row(at(i)));
    return cosine(targets_.row(at(i)) - missed(i) / (1 - leverage(i, i)), targets_.row(at(i)));
  }

  /// How alike what is foretold of row i and the target of row j are, by the pairs but for both of theirs.
  [[nodiscard]] double other(std::size_t i, std::size_t j) const {
    const double h = leverage(i, j);
    if (wrong_[i] && wrong_[j]) return cosine(found_.row(at(i)), targets_.row(at(j)));
    if (wrong_[i]) return cosine(found_.row(at(i)) - h / (1 - leverage(j, j)) * missed(j), targets_.row(at(j)));
    const Eigen::RowVectorXd own = missed(i);
    if (wrong_[j]) return cosine(targets_.row(at(i)) - own / (1 - leverage(i, i)), targets_.row(at(j)));
    const double left_i = 1 - leverage(i, i), left_j = 1 - leverage(j, j);
    const Eigen::RowVectorXd without = (left_j * own + h * missed(j)) / (left_i * left_j - h * h);
    return cosine(targets_.row(at(i)) - without, targets_.row(at(j)));
  }

 private:
  static Eigen::Index at(std::size_t i) { return static_cast<Eigen::Index>(i); }
  [[nodiscard]] Eigen::RowVectorXd missed(std::size_t i) const { return targets_.row(at(i)) - found_.row(at(i)); }
  [[nodiscard]] double leverage(std::size_t i, std::size_t j) const {
    return scaled_.row(at(i)).dot(scaled_.row(at(j))) + 1 / static_cast<double>(kept_.size());
  }

  /// The strength by generalised cross-validation.
  void fit() {
    const EigenRows<double> x = rows_(kept_, Eigen::all), y = targets_(kept_, Eigen::all);
    Matrix64 gram(static_cast<std::size_t>(x.cols()), static_cast<std::size_t>(x.cols()));
    add_gram(gram.view(), Triangle::upper, view_of(x));
    const Eigenpairs basis = eigh(std::move(gram));
    const Eigen::ArrayXd values = as_eigen(std::span(basis.values)).transpose().array().max(0);
    scaled_ = product(rows_, as_eigen(basis.vectors.view()).transpose());
    const EigenRows<double> cross = product(EigenRows<double>(scaled_(kept_, Eigen::all)).transpose(), y);
    const Eigen::ArrayXd squares = cross.rowwise().squaredNorm();
    const double all = y.squaredNorm(), count = static_cast<double>(kept_.size());
    double least = std::numeric_limits<double>::infinity();
    Eigen::ArrayXd penalised;
    for (const double strength : kStrengths) {
      const Eigen::ArrayXd tried = values + strength * values.mean() + std::numeric_limits<double>::min();
      const double left = 1 - ((values / tried).sum() + 1) / count;
      const double error = (all - (squares * (2 * tried - values) / tried.square()).sum()) / (left * left);
      if (!(left > 0) || !(error < least)) continue;
      least = error;
      penalised = tried;
    }
    if (penalised.size() == 0) penalised = values + kStrengths.back() * values.mean() + 1;
    const EigenRows<double> weights = cross.array().colwise() / penalised;
    found_ = product(scaled_, weights);
    scaled_.array().rowwise() *= penalised.rsqrt().transpose();
  }

  const std::vector<bool>& wrong_;
  std::vector<std::size_t> kept_;
  EigenRows<double> rows_, targets_, found_;
  EigenRows<double> scaled_;  ///< whose products are the leverages
};

/// How alike pairs are, and how alike random ones.
struct Alike {
  std::vector<double> own, random;
};

Alike compare(const Foretold& foretold, std::size_t pairs) {
  Alike found;
  const std::vector<std::size_t> order = Random(0).sample(pairs, pairs);
  for (std::size_t i = 0; i < pairs; ++i) found.own.push_back(foretold.own(i));
  for (std::size_t shift = 1; shift <= kShuffles; ++shift) {
    for (std::size_t i = 0; i < pairs; ++i)
      found.random.push_back(foretold.other(order[i], order[(i + shift) % pairs]));
  }
  std::ranges::sort(found.random);
  return found;
}

struct WrongShare {
  double share;
  bool unsure;
};

/// Half of the wrong pairs, and hardly a right one, are less alike than half of the random ones; a fifth are less alike
/// than a fifth. If there are fewer than that, beyond chance, it is right pairs that look like random ones.
WrongShare wrong_share(const Alike& found) {
  constexpr double kLow = 0.2, kMiddle = 0.5, kDeviations = 3;
  const auto count_below = [&](double quantile) {
    const double least = found.random[static_cast<std::size_t>(quantile * static_cast<double>(found.random.size()))];
    return static_cast<double>(std::ranges::count_if(found.own, [&](double own) { return own < least; }));
  };
  const auto pairs = static_cast<double>(found.own.size());
  const double low = count_below(kLow), expected = count_below(kMiddle) / kMiddle * kLow;
  const bool unsure = low < expected - kDeviations * std::sqrt(expected);
  return {std::min(1.0, (unsure ? low : expected) / kLow / pairs), unsure};
}

/// Less alike than this, pairs are more often wrong than right: above it, the right pairs outnumber the wrong ones, as
/// random ones tell how many those are, by most.
double least_likeness(const Alike& found, double share) {
  std::vector<double> own = found.own;
  std::ranges::sort(own);
  const auto count = static_cast<double>(own.size());
  double most = -std::numeric_limits<double>::infinity(), best = own.front();
  for (std::size_t i = 0; i < own.size(); ++i) {
    const auto above = std::ranges::lower_bound(found.random, own[i]);
    const double wrong =
        share * count * static_cast<double>(found.random.end() - above) / static_cast<double>(found.random.size());
    if (const double gain = count - static_cast<double>(i) - 2 * wrong; gain > most) {
      most = gain;
      best = own[i];
    }
  }
  return best;
}

}  // namespace

PairDoubts doubt_pairs(MatrixView<const double> from, MatrixView<const double> to, std::size_t rounds) {
  PairDoubts doubts{std::vector<bool>(from.rows)};
  if (from.rows < kLeastPairs) return doubts;
  const EigenRows<double> x = principal_rows(from, 0), y = principal_rows(to, kHalfWhitened);
  for (std::size_t round = 0; round < rounds; ++round) {
    const Alike found = compare(Foretold(x, y, doubts.wrong), from.rows);
    const auto [share, unsure] = wrong_share(found);
    const double least = least_likeness(found, share);
    std::vector<bool> wrong(from.rows);
    for (std::size_t i = 0; i < wrong.size(); ++i) wrong[i] = found.own[i] < least;
    const auto left = static_cast<double>(std::ranges::count(wrong, false));
    if (share > kMostWrong || left < (1 - kMostWrong) * static_cast<double>(from.rows)) {
      return {std::vector<bool>(from.rows, true), share, unsure};
    }
    doubts.share = share;
    doubts.unsure = unsure;
    if (std::exchange(doubts.wrong, wrong) == wrong) break;
  }
  return doubts;
}

}  // namespace kedge
