// SPDX-License-Identifier: Apache-2.0
#include "core/profiles/json_position.hpp"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/schedule/interchange/line_and_column.hpp"

namespace capstan {
namespace {

/// Reads a text and tells others how far.
class Reader {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Reader(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  Reader& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  Reader operator++(int) {
    Reader before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Reader& other) const { return at_ == other.at_; }
  bool operator!=(const Reader& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

/// The pointer to the value that the parser reads, from its events.
class Path {
 public:
  void open(bool array) { levels_.push_back({array, -1, {}}); }
  void close() { levels_.pop_back(); }
  void key(std::string name) { levels_.back().key = std::move(name); }
  /// A value begins.
  void value() {
    if (!levels_.empty() && levels_.back().array) ++levels_.back().index;
  }
  /// Whether it is `pointer`, which has at least one character for each level.
  bool is(const std::string& pointer) const {
    return levels_.size() <= pointer.size() && text() == pointer;
  }

 private:
  std::string text() const {
    std::string pointer;
    for (const Level& level : levels_)
      pointer += "/" + (level.array ? fmt::format("{}", level.index) : level.key);
    return pointer;
  }

  struct Level {
    bool array;
    int index;
    std::string key;
  };
  std::vector<Level> levels_;
};

}  // namespace

std::string position_of(std::string_view text, const std::string& pointer) {
  using nlohmann::json;
  const char* reached = text.data();
  const char* found = nullptr;
  Path path;
  const auto note = [&] {
    if (!found && path.is(pointer)) found = reached - 1;
  };
  const json::parser_callback_t callback = [&](int, json::parse_event_t event, json& value) {
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        path.value(), note();
        path.open(event == json::parse_event_t::array_start);
        break;
      case json::parse_event_t::object_end:
      case json::parse_event_t::array_end:
        path.close();
        break;
      case json::parse_event_t::key:
        path.key(value.get<std::string>());
        break;
      case json::parse_event_t::value:
        path.value(), note();
        break;
    }
    return true;
  };
  [[maybe_unused]] const json read = json::parse(
      Reader{text.data(), &reached}, Reader{text.data() + text.size(), &reached}, callback, false);
  return found ? line_and_column(text, static_cast<std::size_t>(found - text.data())) : "1:1";
}

}  // namespace capstan
