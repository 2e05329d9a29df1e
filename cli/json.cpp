// SPDX-License-Identifier: Apache-2.0
#include "json.h"

#include <nlohmann/json.hpp>

namespace kedge::cli {
namespace {

using Value = nlohmann::ordered_json;

}  // namespace

Json::Json() : value_(std::make_unique<Value>()) {}
Json::Json(bool value) : value_(std::make_unique<Value>(value)) {}
Json::Json(double value) : value_(std::make_unique<Value>(value)) {}
Json::Json(std::uint64_t value) : value_(std::make_unique<Value>(value)) {}
Json::Json(std::int64_t value) : value_(std::make_unique<Value>(value)) {}
Json::Json(std::string_view value) : value_(std::make_unique<Value>(value)) {}
Json::Json(std::initializer_list<Member> members) : value_(std::make_unique<Value>(Value::object())) {
  for (const Member& member : members) set(member.name, member.value);
}
Json::Json(const Json& other) : value_(std::make_unique<Value>(*other.value_)) {}
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(Json other) noexcept {
  value_ = std::move(other.value_);
  return *this;
}
Json::~Json() = default;

Json Json::array() {
  Json list;
  *list.value_ = Value::array();
  return list;
}

void Json::push_back(const Json& value) {
  value_->push_back(*value.value_);
}

void Json::set(const std::string& name, const Json& value) {
  (*value_)[name] = *value.value_;
}

void Json::update(const Json& other) {
  value_->update(*other.value_);
}

bool Json::is_null() const {
  return value_->is_null();
}

std::size_t Json::size() const {
  return value_->size();
}

std::string Json::dump() const {
  return value_->dump(2, ' ', false, Value::error_handler_t::replace);
}

}  // namespace kedge::cli
