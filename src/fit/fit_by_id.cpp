// SPDX-License-Identifier: Apache-2.0
#include "base/eigen.h"
#include "base/wording.h"
#include "fit/fit.h"
#include "fit/fit_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kedge/draw.h>
#include <kedge/error.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace kedge {
namespace {

template <class... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw Error(Code::bad_argument, fmt::format(text, std::forward<Arguments>(arguments)...));
}

/// Throws where some of the ids have no row.
std::vector<std::size_t> places_of(std::span<const std::int64_t> wanted, std::span<const std::int64_t> found,
                                   const std::string& whose) {
  std::unordered_map<std::int64_t, std::size_t> place_of;
  for (std::size_t i = 0; i < found.size(); ++i) place_of.emplace(found[i], i);
  std::vector<std::size_t> places;
  std::vector<std::int64_t> missing;
  for (const std::int64_t id : wanted) {
    if (const auto place = place_of.find(id); place != place_of.end()) {
      places.push_back(place->second);
    } else {
      missing.push_back(id);
    }
  }
  if (missing.empty()) return places;
  constexpr std::size_t kMostNamed = 5;
  const std::size_t named = std::min(missing.size(), kMostNamed);
  refuse("{}: {} of {} support rows are missing, {} {}{}; add the rows with these ids{}", whose, missing.size(),
         wanted.size(), missing.size() == 1 ? "that with the id" : "those with the ids",
         fmt::join(std::span(missing).first(named), ", "),
         named < missing.size() ? fmt::format(" and {} more", missing.size() - named) : "",
         missing.size() == wanted.size() ? ", or are these the ids of other rows?" : "");
}

Matrix64 picked(const Matrix& rows, std::span<const std::size_t> places) {
  Matrix64 result(places.size(), rows.cols());
  for (std::size_t i = 0; i < places.size(); ++i) std::ranges::copy(rows.row(places[i]), result.row(i).begin());
  return result;
}

/// How many of the rows that were drawn a fit takes; the first are those that a smaller draw would be.
std::size_t drawn_rows(const Moments& moments, const FitOptions& options) {
  const SupportDraw& draw = moments.support();
  const std::size_t asked = options.support == 0 ? draw.count() : options.support;
  if (asked > draw.count()) {
    refuse("asked for a support of {} rows, but the moments carry only {}; sum up the rows again with a larger {}",
           asked, draw.count(), option_words("support"));
  }
  if (asked > draw.size()) {
    refuse("asked for a support of {} rows, but there are {} rows; give {} of at most {}", asked, draw.size(),
           option_words("support"), draw.size());
  }
  return asked;
}

void require_carried(const Moments& moments) {
  if (moments.parts().empty()) refuse("these moments are of no space; add rows first");
  if (moments.support().keeps_rows()) return;
  refuse("these moments carry no support rows; sum up the rows with {} and {}, or give spaces with the support rows",
         option_words("support"), option_words("ids"));
}

SupportRows carried_support(const Moments& moments, const FitOptions& options) {
  require_carried(moments);
  const SupportDraw& draw = moments.support();
  SupportRows support{draw.ids(), {}};
  if (draw.wanted().empty()) {
    support.ids.resize(drawn_rows(moments, options));
  } else {
    (void)places_of(draw.wanted(), support.ids, "the moments");
  }
  for (const Moments::Part& part : moments.parts()) {
    const Matrix rows = moments.support_rows(part.space);
    Matrix64& own = support.rows.emplace_back(support.ids.size(), part.dim);
    as_eigen(own.view()) = as_eigen(rows.view().middle_rows(0, own.rows())).cast<double>();
  }
  return support;
}

/// Rows of the files, in the order of the draw.
std::vector<std::int64_t> draw_rows(std::span<const Space> spaces, std::span<const std::int64_t> ids,
                                    const FitOptions& options) {
  require_parallel(spaces);
  const Space& first = spaces.front();
  if (options.support_select != SupportSelect::random) {
    refuse("asked to select the support by {}, but ids are what it is drawn by; give one or the other",
           to_string(options.support_select));
  }
  const std::size_t count = support_size(with_effort(options, spaces.size()), first.rows());
  if (options.support_ids.empty()) require_support(count, first.rows());
  const SupportDraw draw =
      options.support_ids.empty() ? SupportDraw(count, options.seed) : SupportDraw(options.support_ids);
  draw.require_ids(ids, first.source().rows());
  std::vector<std::int64_t> own;
  for (std::size_t row = 0; row < first.rows(); ++row)
    own.push_back(ids[static_cast<std::size_t>(first.file_row(row))]);
  const std::vector<std::size_t> chosen = draw.choose(own);
  std::vector<std::int64_t> found, rows;
  for (const std::size_t row : chosen) {
    found.push_back(own[row]);
    rows.push_back(first.file_row(row));
  }
  if (!options.support_ids.empty()) (void)places_of(options.support_ids, found, "the spaces");
  return rows;
}

FitOptions with_support(FitOptions options, std::vector<std::int64_t> rows) {
  options.support_ids = std::move(rows);
  options.support = 0;
  return options;
}

void number_by_ids(Bundle& bundle, std::span<const std::int64_t> ids, std::size_t rows) {
  for (std::int64_t& row : bundle.support_ids) row = ids[static_cast<std::size_t>(row)];
  bundle.rows = range_of(rows, bundle.support_ids);
  bundle.by_id = true;
}

/// Any id may be some row's number as well.
void require_by_id(const Bundle& bundle, const std::string& space) {
  if (bundle.by_id) return;
  refuse(
      "space '{}': the bundle keeps its support by row number, so that ids do not find it; give all rows in the "
      "order of the fit without {}, or fit with {} first",
      space, option_words("ids"), option_words("ids"));
}

}  // namespace

Bundle fit(const Moments& moments, const FitOptions& options, const Progress& progress) {
  Bundle bundle = fit(moments, carried_support(moments, options), options, progress);
  bundle.by_id = true;
  return bundle;
}

Bundle fit(std::span<const Space> spaces, std::span<const std::int64_t> ids, const FitOptions& options,
           const Progress& progress) {
  Bundle bundle = fit(spaces, with_support(options, draw_rows(spaces, ids, options)), progress);
  number_by_ids(bundle, ids, spaces.front().rows());
  return bundle;
}

Bundle fit(const Moments& moments, std::span<const Space> spaces, std::span<const std::int64_t> ids,
           const FitOptions& options, const Progress& progress) {
  Bundle bundle = fit(moments, spaces, with_support(options, draw_rows(spaces, ids, options)), progress);
  number_by_ids(bundle, ids, moments.rows());
  return bundle;
}

Attachment attach(const Bundle& bundle, const Space& space, std::span<const std::int64_t> ids,
                  const AttachOptions& options, const Progress& progress) {
  if (options.support_rows) {
    refuse("{} says that the rows are the support alone, in its order, so that {} are of no use; leave out one of them",
           flag_words("support-rows"), option_words("ids"));
  }
  require_by_id(bundle, space.name());
  Moments moments{SupportDraw(bundle.support_ids)};
  add_moments(moments, {&space, 1}, ids, options.device, progress);
  return attach(bundle, moments, options, progress);
}

Attachment attach(const Bundle& bundle, const Moments& moments, const AttachOptions& options,
                  const Progress& progress) {
  if (moments.parts().empty()) refuse("these moments are of no space; add rows first");
  if (!moments.support().keeps_rows()) {
    refuse("the moments of '{}' carry no support rows; sum up its rows with {}, or give its support rows too",
           moments.parts().front().space,
           by_vocabulary("support ids", "--support-of BUNDLE", "support=bundle.support_ids"));
  }
  if (moments.parts().size() != 1) {
    refuse("one space is attached at a time, but the moments are of {}; sum up the rows of one alone",
           moments.parts().size());
  }
  const std::string& space = moments.parts().front().space;
  require_by_id(bundle, space);
  const std::vector<std::size_t> places =
      places_of(bundle.support_ids, moments.support().ids(), fmt::format("space '{}'", space));
  const Matrix64 support = picked(moments.support_rows(space), places);
  return attach(bundle, moments, support.view(), options, progress);
}

}  // namespace kedge
