// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/lowering/protocol.hpp"

#include <fmt/format.h>

namespace capstan {
namespace {

struct Names {
  std::string_view word, clause;
};

constexpr Names names_of(Protocol protocol) {
  switch (protocol) {
    case Protocol::staged:
      return {"staged", "staged"};
    case Protocol::inline_packets:
      return {"inline_packets", "in packets"};
    case Protocol::shared_inline_packets:
      return {"shared_inline_packets", "in packets for all"};
    case Protocol::streamed:
      return {"streamed", "staged past the cache"};
    case Protocol::read_input:
      return {"read_input", "reading inputs"};
    case Protocol::read_buffers:
      return {"read_buffers", "reading buffers"};
    case Protocol::write_output:
      return {"write_output", "writing outputs"};
  }
  return {};
}

}  // namespace

std::string_view name_of(Protocol protocol) {
  return names_of(protocol).clause;
}

std::string_view word_for(Protocol protocol) {
  return names_of(protocol).word;
}

std::string full_name(std::string_view algorithm, Protocol protocol) {
  return fmt::format("{}/{}", algorithm, word_for(protocol));
}

std::optional<std::string_view> present_name_of(std::string_view retired) {
  struct Renamed {
    std::string_view before, now;
  };
  constexpr Renamed renamed[] = {{"flags", "staged"},
                                 {"packets", "inline_packets"},
                                 {"shared_packets", "shared_inline_packets"},
                                 {"inputs", "read_input"},
                                 {"buffers", "read_buffers"},
                                 {"outputs", "write_output"}};
  for (const auto& [before, now] : renamed)
    if (before == retired) return now;
  return std::nullopt;
}

std::optional<Protocol> protocol_named(std::string_view word) {
  for (const Protocol protocol : all_protocols)
    if (word_for(protocol) == word) return protocol;
  return std::nullopt;
}

}  // namespace capstan
