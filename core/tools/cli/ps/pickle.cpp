// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/ps/pickle.hpp"

#include <bit>
#include <cstdint>
#include <limits>
#include <string_view>

#include "capstan/error.hpp"

namespace capstan::cli {
namespace {

// Opcodes of the format, by their names in Python's module pickletools.
constexpr std::string_view protocol_2{"\x80\x02", 2};
constexpr char mark = '(', stop = '.', none = 'N', new_true = '\x88', new_false = '\x89',
               binary_float = 'G', long_1 = '\x8a', unicode = 'X', empty_list = ']',
               empty_dictionary = '}', append_all = 'e', set_all = 'u';

template <class Integer>
void append(std::string& to, Integer value) {
  for (std::size_t i = 0; i < sizeof(Integer); ++i) to += static_cast<char>(value >> 8 * i & 0xff);
}

void append_text(std::string& to, std::string_view text) {
  if (text.size() > std::numeric_limits<std::uint32_t>::max())
    throw InvalidArgument("a text of more than 4 GiB cannot be stored");
  to += unicode;
  append(to, static_cast<std::uint32_t>(text.size()));
  to += text;
}

/// Nine bytes hold every value of std::uint64_t as a number with a sign.
void append_integer(std::string& to, std::uint64_t low, char sign) {
  to += long_1;
  to += '\x09';
  append(to, low);
  to += sign;
}

void append_value(std::string& to, const nlohmann::json& value) {
  using Type = nlohmann::json::value_t;
  switch (value.type()) {
    case Type::boolean:
      to += value.get<bool>() ? new_true : new_false;
      return;
    case Type::number_integer: {
      const auto number = value.get<std::int64_t>();
      return append_integer(to, static_cast<std::uint64_t>(number), number < 0 ? '\xff' : '\0');
    }
    case Type::number_unsigned:
      return append_integer(to, value.get<std::uint64_t>(), '\0');
    case Type::number_float: {
      const auto bits = std::bit_cast<std::uint64_t>(value.get<double>());
      to += binary_float;  // the only one with the high byte first
      for (int shift = 56; shift >= 0; shift -= 8) to += static_cast<char>(bits >> shift & 0xff);
      return;
    }
    case Type::string:
      return append_text(to, value.get_ref<const std::string&>());
    case Type::array:
      (to += empty_list) += mark;
      for (const nlohmann::json& each : value) append_value(to, each);
      to += append_all;
      return;
    case Type::object:
      (to += empty_dictionary) += mark;
      for (const auto& [key, each] : value.items()) {
        append_text(to, key);
        append_value(to, each);
      }
      to += set_all;
      return;
    default:
      to += none;
  }
}

}  // namespace

std::string to_pickle(const nlohmann::json& value) {
  std::string text{protocol_2};
  append_value(text, value);
  text += stop;
  return text;
}

}  // namespace capstan::cli
