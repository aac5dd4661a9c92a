#pragma once

#include <cstdint>

namespace capstan {

/// How data and notice of them travel.
enum class Form : std::uint8_t {
  flags,    ///< data on the board, then a flag: for anything but the smallest messages
  packets,  ///< each cache line carries its own sequence number: no separate flag to wait for
  direct,   ///< as flags, but what comes out of an input is read there: one copy instead of two
  open,     ///< the same for outputs, where they do not change any more
  written   ///< as open, but what is to end up in a peer's output is written there
};

/// Of two that cost the same, the selector takes the one that stands first.
inline constexpr Form all_forms[] = {Form::packets, Form::flags, Form::direct, Form::open,
                                     Form::written};

constexpr bool reads_buffers(Form form) {
  return form >= Form::direct;
}

/// Whether peers need each other's outputs, too.
constexpr bool reaches_outputs(Form form) {
  return form >= Form::open;
}

}  // namespace capstan
