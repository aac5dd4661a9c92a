// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace capstan {

/// How data and the notice of them travel.
enum class Protocol : std::uint8_t {
  staged,          ///< data in a staging buffer, then a flag: for all but the smallest messages
  inline_packets,  ///< each cache line carries data and its tag: no flag is needed
  shared_inline_packets,  ///< the same, but bytes for several peers are written once, for all
  streamed,      ///< as staged, but written past the own cache, from which some cores read slowly
  read_input,    ///< as staged, but peers read bytes of an input in the input: one copy less
  read_buffers,  ///< as read_input, and peers also read parts of outputs that are final
  write_output   ///< as read_buffers, but bytes for a peer's output are written to that output
};

/// In order of preference: of two that cost the same, the selector takes the first.
inline constexpr Protocol all_protocols[] = {
    Protocol::inline_packets, Protocol::shared_inline_packets,
    Protocol::staged,         Protocol::streamed,
    Protocol::read_input,     Protocol::read_buffers,
    Protocol::write_output};

constexpr bool in_packets(Protocol protocol) {
  return protocol == Protocol::inline_packets || protocol == Protocol::shared_inline_packets;
}

constexpr bool reads_buffers(Protocol protocol) {
  return protocol >= Protocol::read_input;
}

/// The protocol with the same programs: streamed and staged differ in nothing but the stores.
constexpr Protocol lowered_as(Protocol protocol) {
  return protocol == Protocol::streamed ? Protocol::staged : protocol;
}

/// Whether peers need each other's outputs, too.
constexpr bool reaches_outputs(Protocol protocol) {
  return protocol >= Protocol::read_buffers;
}

/// For explanations: "in packets".
std::string_view name_of(Protocol protocol);
/// In rules, JSON and help: "inline_packets".
std::string_view word_for(Protocol protocol);
/// An algorithm in a protocol, as rules name it: "ring/staged".
std::string full_name(std::string_view algorithm, Protocol protocol);
/// The inverse of word_for; empty when `word` is none of them.
std::optional<Protocol> protocol_named(std::string_view word);
/// The present name of the protocol that was spelt `retired` before version 0.2. Empty if there was
/// no such protocol.
std::optional<std::string_view> present_name_of(std::string_view retired);

}  // namespace capstan
