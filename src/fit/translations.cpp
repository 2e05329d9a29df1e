// SPDX-License-Identifier: Apache-2.0
#include "fit/translations.h"

#include "base/rows.h"
#include "compute/products.h"

#include <kedge/translate.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

namespace kedge {
namespace {

// An estimate over a few hundred rows is near enough.
constexpr std::size_t kMostRows = 500;

/// Of the rows that are right in all spaces, some, evenly spread.
std::vector<std::size_t> some_rows(const RightRows& right, std::size_t rows) {
  std::vector<std::size_t> in_all, some;
  for (std::size_t row = 0; row < rows; ++row) {
    if (std::ranges::all_of(right, [&](const std::vector<bool>& own) { return own[row]; })) in_all.push_back(row);
  }
  const std::size_t count = std::min(kMostRows, in_all.size());
  for (std::size_t i = 0; i < count; ++i) some.push_back(in_all[i * in_all.size() / count]);
  return some;
}

std::span<const float> r2_of(const Attachment& space) {
  if (const RidgeFit* fit = space.ridge()) return fit->r2;
  if (const KernelFit* fit = space.kernel()) return fit->r2;
  return {};
}

/// What a regression would make of support rows that are left out: what it misses there is larger than what it misses
/// of rows it was fitted on, on the whole by as much as its cross-validated error.
EigenRows<double> left_out(const EigenRows<double>& truth, const EigenRows<double>& found, std::span<const float> r2s) {
  const EigenRows<double> missed = truth - found;
  const Eigen::ArrayXXd around = (truth.rowwise() - truth.colwise().mean()).array();
  const auto r2 = as_eigen(r2s).cast<double>().array();
  const double expected = (around.square().colwise().sum().row(0) * (1 - r2)).sum();
  const double seen = missed.squaredNorm();
  return truth - (seen > 0 ? std::max(1.0, std::sqrt(expected / seen)) : 1.0) * missed;
}

/// As of a ridge, -1 is the least.
double explained(const EigenRows<double>& truth, const EigenRows<double>& found) {
  const double variance = (truth.rowwise() - truth.colwise().mean()).squaredNorm();
  return variance > 0 ? std::max(-1.0, 1 - (truth - found).squaredNorm() / variance) : 0;
}

}  // namespace

std::shared_ptr<const KeptRows> keep_rows(const Matrix64& support, std::span<const std::size_t> positions,
                                          std::span<const std::size_t> places) {
  std::vector<std::size_t> from(positions.begin(), positions.end());
  if (positions.empty()) {
    from.resize(support.rows());
    std::iota(from.begin(), from.end(), std::size_t{0});
  }
  KeptRows kept{matrix_of<float>(as_eigen(support.view())(from, Eigen::all))};
  if (from.size() == support.rows() && places.empty()) return std::make_shared<KeptRows>(std::move(kept));
  std::ranges::transform(from, std::back_inserter(kept.places), [&](std::size_t position) {
    return static_cast<std::int64_t>(places.empty() ? position : places[position]);
  });
  return std::make_shared<KeptRows>(std::move(kept));
}

void expect_translations(Learned& learned, std::span<const Matrix64> supports) {
  const std::size_t support_rows = learned.anchors.targets.rows();
  const std::vector<std::size_t> rows = some_rows(learned.right, support_rows);
  if (rows.size() < 2) return;
  const EigenRows<double> targets = as_eigen(learned.anchors.targets.view())(rows, Eigen::all).cast<double>();
  for (std::size_t i = 0; i < supports.size(); ++i) {
    Attachment& space = learned.spaces[i];
    if (r2_of(space).empty()) continue;
    const Matrix mapped =
        space.map->apply(matrix_of<float>(as_eigen(pick_rows(supports[i].view(), rows).view())).view());
    const EigenRows<double> off = left_out(targets, as_eigen(mapped.view()).cast<double>(), r2_of(space)) - targets;
    for (std::size_t j = 0; j < supports.size(); ++j) {
      const Attachment& other = learned.spaces[j];
      if (i == j || !other.decoder) continue;
      const EigenRows<double> truth = as_eigen(supports[j].view())(rows, Eigen::all);
      const EigenRows<double> decode = as_eigen(other.decoder->weight.view()).cast<double>();
      EigenRows<double> decoded = product(targets, decode.transpose());
      decoded.rowwise() += as_eigen(std::span(other.decoder->bias)).cast<double>();
      const EigenRows<double> found =
          left_out(truth, decoded, other.decoder->fit.r2) + product(off, decode.transpose());
      const double r2 = explained(truth, found);
      const bool few = support_rows < std::max(supports[i].cols(), supports[j].cols());
      if (r2 < 0 && few) continue;  // far too low: -.4 was said where .7 was true
      space.translations.push_back({other.space(), r2});
    }
  }
}

Bundle expect_regressions(Bundle bundle, const Progress& progress) {
  const std::vector<std::string> sources = bundle.made().sources;
  const std::size_t pairs = sources.size() * (sources.size() - 1);
  std::size_t done = 0;
  for (const std::string& from : sources) {
    Attachment space = bundle.space(from);
    for (const std::string& to : sources) {
      if (to == from) continue;
      if (progress) progress({"regressing pairs", done++, pairs, ""});
      if (const auto r2 = Translator(bundle, from, to).r2()) space.translations.push_back({to, *r2});
    }
    bundle = bundle.with(std::move(space));
  }
  if (progress) progress({"regressing pairs", pairs, pairs, ""});
  return bundle;
}

}  // namespace kedge
