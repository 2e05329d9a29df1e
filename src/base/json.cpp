// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include "base/wording.h"

#include <set>

namespace kedge {
namespace {

using Json = nlohmann::json;

/// Runs over a text before any of it is built in memory. Json::parse with a callback could do the same, but takes
/// time quadratic in the number of members.
class Check final : public nlohmann::json_sax<Json> {
 public:
  explicit Check(const JsonLimits& limits) : limits_(limits) {}
  [[nodiscard]] const std::string& problem() const { return problem_; }

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool start_object(std::size_t) override { return open(false); }
  bool start_array(std::size_t) override { return open(true); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    std::set<std::string>& names = open_.back().names;
    if (!names.insert(name).second) return refuse(fmt::format("names '{}' twice", name));
    return names.size() <= limits_.most_members ||
           refuse(fmt::format("has more than {} members in one object", limits_.most_members));
  }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
    return refuse("is not valid JSON");
  }

 private:
  struct Level {
    bool is_list;
    std::size_t values = 0;       ///< of a list, so far
    std::set<std::string> names;  ///< in an object, so far
  };

  bool refuse(std::string what) {
    problem_ = std::move(what);
    return false;
  }
  bool value() {
    return open_.empty() || !open_.back().is_list || ++open_.back().values <= limits_.longest_list ||
           refuse(fmt::format("has more than {} values in one list", limits_.longest_list));
  }
  bool open(bool is_list) {
    if (!value()) return false;
    open_.push_back({is_list, 0, {}});
    return open_.size() <= limits_.deepest || refuse("is nested too deeply");
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  JsonLimits limits_;
  std::vector<Level> open_;  ///< all that have not ended
  std::string problem_;
};

}  // namespace

std::string json_problem(std::string_view text, const JsonLimits& limits) {
  Check check(limits);
  return Json::sax_parse(text, &check) ? "" : check.problem();
}

Json parse_json(std::string_view text, std::string_view what, const JsonLimits& limits) {
  const std::string problem = json_problem(text, limits);
  if (!problem.empty()) refuse_file("{} {}", what, problem);
  return Json::parse(text);
}

}  // namespace kedge
