// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kedge/error.h>
#include <kedge/lab/stitch.h>

#include <algorithm>
#include <array>
#include <utility>

namespace kedge {
namespace {

using Anchors = StitchMethod::Anchors;

// A name comes before its prefixes.
constexpr std::array<std::pair<std::string_view, Anchors>, 9> kAnchors{{{"absolute", Anchors::absolute},
                                                                        {"random", Anchors::random},
                                                                        {"kmeans", Anchors::kmeans},
                                                                        {"fps", Anchors::fps},
                                                                        {"param-single", Anchors::param_single},
                                                                        {"param-multi", Anchors::param_multi},
                                                                        {"param", Anchors::param_multi},
                                                                        {"consensus", Anchors::consensus},
                                                                        {"ridge", Anchors::ridge}}};
constexpr std::array kWays{AttachBy::ridge, AttachBy::kernel};  // that may end a name

std::string_view name_of(Anchors anchors) {
  for (const auto& [name, value] : kAnchors) {
    if (value == anchors) return name;
  }
  return "";
}

/// Whether the name has the similarity even if it is wip.
bool always_named(Anchors anchors) {
  return anchors == Anchors::random || anchors == Anchors::kmeans || anchors == Anchors::fps;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\v\f\r";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

[[noreturn]] void refuse(std::string_view name, std::string_view why) {
  throw Error(
      Code::bad_argument,
      fmt::format("method '{}'{}; give absolute, random-cosine, random-wip, kmeans-wip, fps-cosine, "
                  "param-single, param-multi, param-cosine, consensus, consensus-kernel, ridge, or other anchors "
                  "(random, kmeans, fps, param-single, param-multi, consensus) with a similarity ({})",
                  name, why, fmt::join(similarity_names(), ", ")));
}

}  // namespace

std::string to_string(const StitchMethod& method) {
  if (method.anchors == Anchors::absolute) return "absolute";
  const bool plain = method.similarity == Similarity::wip && !always_named(method.anchors);
  std::string name(name_of(method.anchors));
  if (!plain && method.anchors == Anchors::param_multi) name = "param";
  if (!plain) name += fmt::format("-{}", to_string(method.similarity));
  const bool regresses_itself = method.anchors == Anchors::consensus || method.anchors == Anchors::ridge;
  const bool own_way = regresses_itself && method.by == AttachBy::ridge;
  if (method.by && !own_way) name += fmt::format("-{}", to_string(*method.by));
  return name;
}

StitchMethod parse_stitch_method(std::string_view name, Similarity otherwise) {
  StitchMethod method;
  std::string_view rest = name;
  for (const AttachBy way : kWays) {
    const std::string ending = fmt::format("-{}", to_string(way));
    if (!rest.ends_with(ending)) continue;
    method.by = way;
    rest.remove_suffix(ending.size());
  }
  for (const auto& [anchors, value] : kAnchors) {
    if (!rest.starts_with(anchors)) continue;
    const std::string_view similarity = rest.substr(anchors.size());
    if (!similarity.empty() && !similarity.starts_with('-')) continue;
    method.anchors = value;
    if (value == Anchors::absolute && (method.by || !similarity.empty())) refuse(name, " has no similarity");
    if (similarity.empty()) {
      if (value != Anchors::absolute) method.similarity = otherwise;
    } else {
      try {
        method.similarity = parse_similarity(similarity.substr(1));
      } catch (const Error&) {
        refuse(name,
               fmt::format(" ends in '{}', which is neither a similarity nor a way to make maps (-ridge or -kernel)",
                           similarity.substr(1)));
      }
    }
    const bool raw = method.similarity == Similarity::inner;
    if (value == Anchors::ridge && (method.by || (method.similarity != Similarity::wip && !raw))) {
      refuse(name, " is neither ridge, which whitens rows, nor ridge-inner, which does not");
    }
    if (method.by && method.similarity != Similarity::wip) {
      refuse(name, fmt::format(" asks for {}, which needs wip", to_string(*method.by)));
    }
    return method;
  }
  refuse(name, " is not known");
}

std::vector<StitchMethod> parse_stitch_methods(std::span<const std::string> names,
                                               std::span<const std::string> similarities) {
  std::vector<StitchMethod> methods;
  const auto add = [&](const StitchMethod& method) {
    if (std::ranges::count(methods, method) == 0) methods.push_back(method);
  };
  for (const std::string_view text : names) {
    const std::string_view name = trimmed(text);
    if (similarities.empty()) add(parse_stitch_method(name));
    for (const std::string& similarity : similarities) add(parse_stitch_method(name, parse_similarity(similarity)));
  }
  return methods;
}

}  // namespace kedge
