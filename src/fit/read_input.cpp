// SPDX-License-Identifier: Apache-2.0
#include "base/arithmetic.h"
#include "base/eigen.h"
#include "base/wording.h"
#include "compute/device.h"
#include "compute/threads.h"
#include "fit/fit.h"
#include "space/sum_rows.h"

#include <fmt/ranges.h>
#include <kedge/anchors.h>
#include <kedge/draw.h>

#include <algorithm>
#include <unordered_map>

namespace kedge {
namespace {

std::vector<std::string> names_of(std::span<const Space> spaces) {
  std::vector<std::string> names;
  for (const Space& space : spaces) names.push_back(space.name());
  return names;
}

std::vector<Moments> read_moments(std::span<const Space> spaces, const FitOptions& options, const Progress& progress) {
  const auto read = [&](std::span<const Space> some) {
    return read_moments(some, options.shrinkage_rule, options.device, progress);
  };
  if (std::holds_alternative<Consensus>(options.method)) return {read(spaces)};
  std::vector<Moments> each;
  for (const Space& space : spaces) each.push_back(read({&space, 1}));
  return each;
}

/// The spaces hold all of their rows, or a sample.
void require_sampled(const Moments& own, std::span<const Space> spaces) {
  if (own.rows() < spaces.front().rows()) {
    refuse(
        "the moments are of {} rows, but the spaces have {}, which are all rows or a sample of them; is a part of the "
        "moments missing?",
        own.rows(), spaces.front().rows());
  }
}

/// Rows of the files, in the order of the draw.
std::vector<std::int64_t> draw_rows(std::span<const Space> spaces, std::span<const std::int64_t> ids,
                                    const FitOptions& options) {
  const Space& first = spaces.front();
  if (options.support_select != SupportSelect::random) {
    refuse("asked to select the support by {}, but ids are what it is drawn by; give one or the other",
           to_string(options.support_select));
  }
  const std::size_t count = support_size(options, first.rows());
  if (options.support_ids.empty()) require_support(count, first.rows());
  const SupportDraw draw =
      options.support_ids.empty() ? SupportDraw(count, options.seed) : SupportDraw(options.support_ids);
  draw.require_ids(ids, first.source().rows());
  std::vector<std::int64_t> own, found, rows;
  for (std::size_t row = 0; row < first.rows(); ++row) {
    own.push_back(ids[static_cast<std::size_t>(first.file_row(row))]);
  }
  for (const std::size_t row : draw.choose(own)) {
    found.push_back(own[row]);
    rows.push_back(first.file_row(row));
  }
  if (!options.support_ids.empty()) (void)places_of(options.support_ids, found, "the spaces");
  return rows;
}

void gather_support(FitInput& input) {
  input.support.ids = input.file_rows;
  for (const Space& space : input.spaces) input.support.rows.push_back(space.gather(input.file_rows));
}

/// For a support that depends on the rows, once the moments are known.
void select_and_gather(FitInput& input, std::span<const Statistics> statistics, const FitOptions& options,
                       const Progress& progress) {
  if (options.similarity == Similarity::wip) std::ranges::for_each(statistics, require_whitenable);
  input.file_rows = select_support(input.spaces, statistics, options, progress);
  gather_support(input);
}

/// Throws what can be refused before any row is read.
FitOptions settle(const FitOptions& asked, std::size_t spaces, bool others) {
  FitOptions options = with_effort(asked, spaces, others);
  require_valid(spaces, options);
  return options;
}

/// How many of the rows that were drawn a fit takes; the first are those that a smaller draw would be.
std::size_t drawn_rows(const SupportDraw& draw, const FitOptions& options) {
  const std::size_t asked = options.support.value_or(draw.count());
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

/// From moments alone, which carry the support rows.
FitInput carried_input(const Moments& moments, const FitOptions& options) {
  if (moments.parts().empty()) refuse("these moments are of no space; add rows first");
  const SupportDraw& draw = moments.support();
  if (!draw.keeps_rows()) {
    refuse("these moments carry no support rows; sum up the rows with {} and {}, or give spaces with the support rows",
           option_words("support"), option_words("ids"));
  }
  FitInput input{{moments}, {draw.ids(), {}}, true};
  SupportRows& support = input.support;
  if (draw.wanted().empty()) {
    support.ids.resize(drawn_rows(draw, options));
  } else {
    (void)places_of(draw.wanted(), support.ids, "the moments");
  }
  for (const Moments::Part& part : moments.parts()) {
    const Matrix rows = moments.support_rows(part.space);
    support.rows.push_back(matrix_of<double>(as_eigen(rows.view().middle_rows(0, support.ids.size()))));
  }
  return input;
}

/// From moments and files that hold just the support.
FitInput support_input(const FitRows& rows, const FitOptions& options) {
  if (!rows.moments) refuse("the spaces hold the support rows alone, so that the moments of all rows are needed too");
  FitInput input{{rows.moments->of(names_of(rows.spaces))}, {options.support_ids, {}}};
  for (const Space& space : rows.spaces) {
    space.read(0, input.support.rows.emplace_back(space.rows(), space.dim()).view());
  }
  return input;
}

// What a fit refuses.

/// What takes more than the support and the moments.
void require_no_other_rows(const FitOptions& options) {
  if (std::holds_alternative<Param>(options.method)) {
    refuse(
        "param learns from batches of rows, which moments and support rows do not have; give spaces that hold a "
        "sample of the rows, without {}, or use another method",
        flag_words("support-rows"));
  }
  if (refinement_of(options) != nullptr) {
    refuse(
        "refinement learns from batches of rows, which moments and support rows do not have; leave {} at 0, or give "
        "spaces that hold a sample of the rows, without {}",
        option_words("refine-epochs"), flag_words("support-rows"));
  }
  if (options.support_select != SupportSelect::random) {
    refuse("asked to select the support by {}, but support rows were given; give one or the other",
           to_string(options.support_select));
  }
}

void require_ids(std::span<const std::int64_t> ids) {
  if (ids.empty()) refuse("a fit from moments needs support rows, but none were given");
  if (const std::int64_t least = *std::ranges::min_element(ids); least < 0) {
    refuse("support id {} is negative; ids are row numbers", least);
  }
  require_no_repeats(ids);
}

std::vector<Moments::Part> parts_of(std::span<const Moments> moments) {
  std::vector<Moments::Part> parts;
  for (const Moments& own : moments) parts.insert(parts.end(), own.parts().begin(), own.parts().end());
  return parts;
}

void require_support_rows(const FitInput& input) {
  const std::vector<Moments::Part> parts = parts_of(input.moments);
  const SupportRows& support = input.support;
  if (support.rows.size() != parts.size()) {
    refuse("the moments are of {} space(s), but there are support rows of {}; give those of every space", parts.size(),
           support.rows.size());
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& [space, dim] = parts[i];
    const Matrix64& rows = support.rows[i];
    if (rows.rows() != support.ids.size()) {
      refuse("space '{}': there are {} support ids, but {} support rows; give one row for each id, in their order",
             space, support.ids.size(), rows.rows());
    }
    if (rows.cols() != dim) {
      refuse("space '{}': the moments are of rows of {} values, but its support rows have {}", space, dim, rows.cols());
    }
    require_finite_rows(space, rows);
  }
  if (!input.spaces.empty() && (input.spaces.size() != parts.size() || input.file_rows.size() != support.ids.size())) {
    refuse("there are {} spaces to learn from and {} rows of their files, but {} spaces with {} support rows",
           input.spaces.size(), input.file_rows.size(), parts.size(), support.ids.size());
  }
}

}  // namespace

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

// A GPU does not take the sums that Ledoit-Wolf needs, and nothing else needs them.
Moments read_moments(std::span<const Space> spaces, ShrinkageRule rule, Device device, const Progress& progress) {
  if (rule == ShrinkageRule::ledoit_wolf) return compute_joint_moments(spaces, Device::cpu, Highest::fourth, progress);
  return compute_joint_moments(spaces, device, Highest::second, progress);
}

Moments moments_of(std::span<const Space> spaces, const Moments& known) {
  Moments own = known.of(names_of(spaces));
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    if (own.parts()[i].dim == spaces[i].dim()) continue;
    refuse("space '{}': the moments are of rows of {} values, but {} has {}", spaces[i].name(), own.parts()[i].dim,
           spaces[i].source().label(), spaces[i].dim());
  }
  return own;
}

FitOptions settle(const FitInput& input, const FitOptions& asked) {
  const bool learns = !input.spaces.empty();
  if (!learns) require_no_other_rows(asked);
  return settle(asked, parts_of(input.moments).size(),
                learns && input.support.ids.size() < input.spaces.front().rows());
}

void require_input(const FitInput& input, const FitOptions& options) {
  require_ids(input.support.ids);
  require_support_rows(input);
  const std::size_t support = input.support.ids.size();
  if (options.support && *options.support != support) {
    refuse("asked for a support of {} rows, but {} support rows were given", *options.support, support);
  }
  if (!options.support_ids.empty() && options.support_ids != input.support.ids) {
    refuse("the support ids of the options are not those of the support rows; leave one of them out");
  }
  for (const Moments& moments : input.moments) {
    if (moments.rows() < support) {
      refuse("the moments are of {} rows, but there are {} support rows, which are some of them", moments.rows(),
             support);
    }
    require_variation(moments, std::vector<std::string>(moments.parts().size(), "its rows"));
  }
  if (std::holds_alternative<Consensus>(options.method) && input.moments.size() != 1) {
    refuse("a consensus needs moments of all spaces side by side, but these are of each space alone");
  }
  if (!is_adapter(options.method)) require_anchors(anchor_count(options, support), support);
}

void require_no_repeats(std::span<const std::int64_t> ids) {
  std::vector<std::int64_t> sorted(ids.begin(), ids.end());
  std::ranges::sort(sorted);
  const auto repeated = std::ranges::adjacent_find(sorted);
  if (repeated == sorted.end()) return;
  refuse("support id {} is given more than once; each row may be used once", *repeated);
}

void require_finite_rows(const std::string& space, const Matrix64& support) {
  for (std::size_t r = 0; r < support.rows(); ++r) {
    if (all_finite(support.row(r))) continue;
    refuse("space '{}': its support row {} holds a value that is NaN or infinite", space, r);
  }
}

RowRange rows_of(const FitInput& input) {
  if (!input.spaces.empty() && !input.by_id) return input.spaces.front().range();
  const auto last = static_cast<std::size_t>(*std::ranges::max_element(input.support.ids));
  return {0, std::max(input.moments.front().rows(), last + 1)};
}

std::vector<Statistics> statistics_of(std::span<const Moments> moments, const FitOptions& options) {
  std::vector<Statistics> statistics;
  for (const Moments& some : moments) {
    for (const Moments::Part& part : some.parts()) {
      statistics.emplace_back(some.of(part.space), options.whitening, options.shrinkage_rule, options.device);
    }
  }
  return statistics;
}

Statistics read_statistics(const Space& space, const FitOptions& options) {
  return {read_moments({&space, 1}, options.shrinkage_rule, options.device, {}), options.whitening,
          options.shrinkage_rule, options.device};
}

void require_fit(std::span<const Space> spaces, const FitOptions& options) {
  require_parallel(spaces);
  (void)known_support(spaces, settle(options, spaces.size(), has_others(options, spaces.front().rows())));
}

FitInput read_input(const FitRows& rows, const FitOptions& asked, const Progress& progress) {
  const Work work;
  const std::vector<Space>& spaces = rows.spaces;
  if (spaces.empty() && rows.moments) return carried_input(*rows.moments, asked);
  if (rows.support_rows) return support_input(rows, asked);
  require_parallel(spaces);
  FitOptions options = asked;
  if (rows.ids) {
    options.support_ids = draw_rows(spaces, *rows.ids, asked);
    options.support.reset();
  }
  options = settle(options, spaces.size(), has_others(options, spaces.front().rows()));
  FitInput input{{}, {}, rows.ids.has_value(), spaces, known_support(spaces, options)};
  std::jthread loading;
  if (rows.moments) {
    input.moments.push_back(moments_of(spaces, *rows.moments));
    require_sampled(input.moments.front(), spaces);
  } else if (std::holds_alternative<Consensus>(options.method)) {
    loading = prepare(options.device);
  }
  if (!input.file_rows.empty()) gather_support(input);
  if (!rows.moments) input.moments = read_moments(spaces, options, progress);
  if (input.file_rows.empty()) select_and_gather(input, statistics_of(input.moments, options), options, progress);
  if (rows.ids) {
    for (std::int64_t& id : input.support.ids) id = (*rows.ids)[static_cast<std::size_t>(id)];
  }
  return input;
}

FitInput read_input(std::span<const Space> spaces, std::span<const Statistics> statistics, const FitOptions& asked,
                    const Progress& progress) {
  require_parallel(spaces);
  const FitOptions options = settle(asked, spaces.size(), has_others(asked, spaces.front().rows()));
  FitInput input{{}, {}, false, {spaces.begin(), spaces.end()}, known_support(spaces, options)};
  if (std::holds_alternative<Consensus>(options.method)) input.moments = read_moments(spaces, options, progress);
  if (input.file_rows.empty()) {
    select_and_gather(input, statistics, options, progress);
  } else {
    gather_support(input);
  }
  return input;
}

}  // namespace kedge
