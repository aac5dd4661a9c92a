// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace capstan::launcher {

// The protocol between `capstan run` and its daemon on another host, over the daemon's standard
// input and output. The daemon begins with `greeting`; then each side sends messages, each four
// bytes of length (little-endian) and as much CBOR. Field "is" says which message it is:
//
//   launcher -> daemon                      daemon -> launcher
//                                           hello   version
//   start   what to run, see daemon.cpp
//   signal  signal                          output  rank, stream, bytes (none: no more)
//   input   bytes (none: the end)           taken   bytes
//                                           end     rank, pid, status
//                                           trouble what, exit_status
//
// The end of the launcher's side means that the launcher is gone. The daemon ends when all ranks
// have ended and all messages have been sent.

inline constexpr std::string_view greeting = "capstan daemon\n";

/// Bytes that are not this protocol.
class NotTheProtocol : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::string encode(const nlohmann::json& message);

/// Converts bytes to the form in which a message holds them, and back.
nlohmann::json binary(std::string_view bytes);
std::string_view bytes_of(const nlohmann::json& value);

/// Cuts the bytes from the other side into messages.
class HostMessageReader {
 public:
  /// `greeted`: the other side begins with the greeting.
  explicit HostMessageReader(bool greeted) : expect_greeting_(greeted) {}

  void append(std::string_view bytes) { buffer_ += bytes; }
  /// The next whole message. Throws NotTheProtocol.
  std::optional<nlohmann::json> next();

 private:
  void take_greeting();

  bool expect_greeting_;
  std::string buffer_;
};

}  // namespace capstan::launcher
