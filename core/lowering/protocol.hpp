#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace capstan {

/// How data and notice of them travel.
enum class Form : std::uint8_t {
  flags,    ///< data on the board, then a flag: for anything but the smallest messages
  packets,  ///< each cache line carries its own sequence number: no separate flag to wait for
  shared_packets,  ///< the same, where what several peers get is written once and read by all
  direct,          ///< as flags, but what comes out of an input is read there: one copy, not two
  open,            ///< the same for outputs, where they do not change any more
  written          ///< as open, but what is to end up in a peer's output is written there
};

/// Of two that cost the same, the selector takes the one that stands first.
inline constexpr Form all_forms[] = {Form::packets, Form::shared_packets, Form::flags,
                                     Form::direct,  Form::open,           Form::written};

constexpr bool in_packets(Form form) {
  return form == Form::packets || form == Form::shared_packets;
}

constexpr bool reads_buffers(Form form) {
  return form >= Form::direct;
}

/// Whether peers need each other's outputs, too.
constexpr bool reaches_outputs(Form form) {
  return form >= Form::open;
}

/// For explanations: "in packets".
std::string_view name_of(Form form);
/// For rules: "packets".
std::string_view word_for(Form form);
/// The inverse of word_for; empty when `word` is none of them.
std::optional<Form> form_named(std::string_view word);

}  // namespace capstan
