// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kedge::cli {

/// A value that --json prints. It hides nlohmann-json, so that only json.cpp has to compile it.
class Json {
 public:
  struct Member;

  Json();  ///< null
  Json(bool value);
  Json(double value);
  Json(std::uint64_t value);
  Json(std::int64_t value);
  Json(std::string_view value);
  Json(const char* value) : Json(std::string_view(value)) {}
  Json(const std::string& value) : Json(std::string_view(value)) {}
  Json(std::unsigned_integral auto value) : Json(std::uint64_t{value}) {}
  template <class T>
  Json(const std::vector<T>& values) : Json(array()) {
    for (const T& value : values) push_back(value);
  }
  Json(std::initializer_list<Member> members);  ///< an object, in this order
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(Json other) noexcept;
  ~Json();

  [[nodiscard]] static Json array();

  void push_back(const Json& value);                     ///< of a list
  void set(const std::string& name, const Json& value);  ///< of an object
  void update(const Json& other);                        ///< all members of another object
  [[nodiscard]] bool is_null() const;
  [[nodiscard]] std::size_t size() const;
  /// Over several lines; what is not UTF-8 becomes a replacement character.
  [[nodiscard]] std::string dump() const;

 private:
  std::unique_ptr<nlohmann::ordered_json> value_;
};

struct Json::Member {
  std::string name;
  Json value;
};

}  // namespace kedge::cli
