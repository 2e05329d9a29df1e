// SPDX-License-Identifier: Apache-2.0
#include "base/wording.h"
#include "compute/products.h"
#include "compute/threads.h"
#include "map/attach_by.h"
#include "map/fold.h"

#include <kedge/translate.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace kedge {
namespace {

// Finer than those of a map: what a pair shares in directions of little variance is foretold too.
constexpr std::array kPairStrengths{1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, .1, .3, 1., 3., 10., 30., 100.};

// Of the rows of the space that keeps fewer. For a pair that shares less, the shared space may be better, which has
// learned from all rows of both: with 150 of 300 rows in common, R^2 was .61 through it and .45 from those alone.
constexpr double kLeastShared = .9;

/// The support rows that two spaces both keep.
struct KeptPair {
  Matrix64 from, to;
};

std::vector<std::size_t> places_of(const KeptRows& kept) {
  std::vector<std::size_t> places(kept.places.begin(), kept.places.end());
  if (!places.empty()) return places;
  places.resize(kept.rows.rows());
  std::iota(places.begin(), places.end(), std::size_t{0});
  return places;
}

KeptPair pair_of(const KeptRows& from, const KeptRows& to) {
  const std::vector<std::size_t> a = places_of(from), b = places_of(to);
  std::vector<std::size_t> in_a, in_b;
  for (std::size_t i = 0, j = 0; i < a.size(); ++i) {
    while (j < b.size() && b[j] < a[i]) ++j;
    if (j == b.size() || b[j] != a[i]) continue;
    in_a.push_back(i);
    in_b.push_back(j++);
  }
  return {matrix_of<double>(as_eigen(from.rows.view())(in_a, Eigen::all).cast<double>()),
          matrix_of<double>(as_eigen(to.rows.view())(in_b, Eigen::all).cast<double>())};
}

bool share_enough(const KeptPair& pair, const Attachment& source, const Attachment& target) {
  const auto fewer = static_cast<double>(std::min(source.kept->rows.rows(), target.kept->rows.rows()));
  return static_cast<double>(pair.from.rows()) >= kLeastShared * fewer;
}

/// Share of the variance of the pair's own rows.
double explained(const Translator& translator, const KeptPair& pair) {
  const Matrix narrow = matrix_of<float>(as_eigen(pair.from.view()).cast<float>());
  const EigenRows<double> found = as_eigen(translator.apply(narrow.view()).view()).cast<double>();
  const auto truth = as_eigen(pair.to.view());
  const double variance = (truth.rowwise() - column_means(pair.to.view())).squaredNorm();
  return variance > 0 ? 1 - (truth - found).squaredNorm() / variance : 0;
}

bool invertible(const RelativeMap& map) {
  return map.similarity() == Similarity::wip || map.similarity() == Similarity::inner;
}

Statistics statistics_of(const Bundle& bundle, const Attachment& space, const Matrix64& rows) {
  const Eigen::RowVectorXd mean = column_means(rows.view());
  const Matrix64 centred = matrix_of<double>(as_eigen(rows.view()).rowwise() - mean);
  Matrix64 scatter(rows.cols(), rows.cols());
  set_product(scatter.view(), as_eigen(centred.view()).transpose(), centred.view());
  Moments moments({{space.space(), rows.cols()}}, rows.rows(), {mean.begin(), mean.end()}, std::move(scatter), {}, {});
  return {
      std::move(moments), {space.shrinkage, bundle.made().whitening.epsilon}, ShrinkageRule::fixed, Device::cpu, true};
}

}  // namespace

void Translator::take(const RelativeMap& map) {
  weight_ = map.weight();
  bias_ = map.bias();
  mean_ = map.mean();
  kernel_ = map.kernel();
}

/// By kernel where the source's map is, else by ridge on rows as they are.
void Translator::regress(const Bundle& bundle, const Attachment& source, const Matrix64& from, const Matrix64& to) {
  const Work work;
  if (source.kernel() != nullptr) {
    const auto [map, fit] = translate_by_kernel(statistics_of(bundle, source, from), from.view(), to.view(),
                                                Similarity::inner, {}, {}, nullptr, false);
    take(map);
    r2_ = 1 - fit.error;
    return;
  }
  const Eigen::RowVectorXd from_mean = column_means(from.view()), to_mean = column_means(to.view());
  const Matrix64 features = matrix_of<double>(as_eigen(from.view()).rowwise() - from_mean);
  const Matrix64 targets = matrix_of<double>(as_eigen(to.view()).rowwise() - to_mean);
  const Ridge ridge(features.view(), targets.view(), 1);
  const double strength = ridge.best(kPairStrengths);
  const Matrix64 solution = ridge.solve(strength);
  kernel_.reset();
  weight_ = matrix_of<float>(as_eigen(solution.view()).transpose());
  bias_.resize(weight_.rows());
  as_eigen(std::span(bias_)) = (to_mean - product(from_mean, solution.view())).cast<float>();
  const double variance = as_eigen(targets.view()).squaredNorm() / static_cast<double>(targets.rows());
  const double missed = ridge.gcv(strength) * static_cast<double>(targets.cols());
  r2_ = variance > 0 ? std::max(-1.0, 1 - missed / variance) : 0;
}

Translator::Translator(const Bundle& bundle, const std::string& from, const std::string& to) : from_(from), to_(to) {
  const Attachment source = bundle.space(from), target = bundle.space(to);
  const KeptPair pair = source.kept && target.kept ? pair_of(*source.kept, *target.kept) : KeptPair{};
  const std::size_t shared = pair.from.rows();
  if (shared < 2) {
    go_through(*source.map, target);
  } else if (share_enough(pair, source, target) || !invertible(*source.map) || !target.decoder) {
    regress(bundle, source, pair.from, pair.to);
  } else {
    go_through(*source.map, target);
    Translator other = *this;
    other.regress(bundle, source, pair.from, pair.to);
    if (other.r2() > explained(*this, pair)) *this = std::move(other);
  }
  const bool curved = kernel_ && !as_eigen(kernel_->coefficients.view()).allFinite();
  if (curved || !as_eigen(weight_.view()).allFinite() || !as_eigen(std::span(bias_)).allFinite()) {
    refuse(
        "the values of '{}' and '{}' differ so much in scale that a translation does not fit in float32; rescale one "
        "space and attach it again",
        from, to);
  }
}

/// The shared space.
void Translator::go_through(const RelativeMap& map, const Attachment& target) {
  if (!invertible(map)) {
    refuse(
        "the map of '{}' has the similarity {}, which cannot be inverted; translation needs a bundle with the "
        "similarity wip, or one that keeps rows ({})",
        from_, to_string(map.similarity()), flag_words("keep-rows"));
  }
  if (!target.decoder) {
    refuse(
        "space '{}' has no decoder, so nothing can be translated into it; attach it again to a bundle with the "
        "similarity wip, or to one that keeps rows ({})",
        to_, flag_words("keep-rows"));
  }
  if (const RelativeMap* reverse = target.reverse(); reverse != nullptr && reverse->space() == from_) {
    return take(*reverse);
  }
  const Work work;
  const EigenRows<double> decode = as_eigen(target.decoder->weight.view()).cast<double>();
  const EigenRows<double> encode = as_eigen(map.weight().view()).cast<double>();
  weight_ = matrix_of<float>(product(decode, encode));
  bias_.resize(weight_.rows());
  const Eigen::RowVectorXd start = as_eigen(std::span(map.bias())).cast<double>();
  const Eigen::RowVectorXd end = as_eigen(std::span(target.decoder->bias)).cast<double>();
  as_eigen(std::span(bias_)) = (product(start, decode.transpose()) + end).cast<float>();
  if (map.kernel()) {
    mean_ = map.mean();
    kernel_ = map.kernel();
    const EigenRows<double> coefficients = as_eigen(map.kernel()->coefficients.view()).cast<double>();
    kernel_->coefficients = matrix_of<float>(product(coefficients, decode.transpose()));
  }
}

void Translator::apply(MatrixView<const float> x, MatrixView<float> y) const {
  if (x.cols != input_dim() || y.cols != output_dim() || x.rows != y.rows) {
    refuse("translating '{}' to '{}' takes rows of {} values to rows of {}, got {} x {} and {} x {}", from_, to_,
           input_dim(), output_dim(), x.rows, x.cols, y.rows, y.cols);
  }
  require_apart(x, y);
  if (!kernel_) return apply_affine(weight_.view(), bias_, x, y);
  const Work work;
  apply_kernel(kernel_function(*this), x, y);
}

Matrix Translator::apply(MatrixView<const float> x) const {
  Matrix y(x.rows, output_dim());
  apply(x, y.view());
  return y;
}

void translate(const Translator& translator, const Space& input, const std::string& output_path,
               const StreamOptions& options, const Progress& progress) {
  const Work work;
  require_device(options.device);
  const MakeRowWorker make_worker =
      translator.kernel()
          ? kernel_workers(kernel_function(translator), options.device, options.precision)
          : affine_workers(translator.weight().view(), translator.bias(), options.device, options.precision);
  stream({translator.from(), "translating", translator.input_dim(), translator.output_dim(), make_worker}, input,
         output_path, options, progress);
}

}  // namespace kedge
