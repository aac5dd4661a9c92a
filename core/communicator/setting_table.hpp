// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "capstan/settings.hpp"

namespace capstan {

/// A setting as doors see it: its name, and how it is read from text and shown.
struct Setting {
  struct Seconds {
    std::chrono::milliseconds Settings::* member;
  };
  struct Text {
    std::string Settings::* member;
    bool secret = false;  ///< never shown
  };
  struct Switch {
    bool Settings::* member;
  };
  struct Number {
    int Settings::* member;
    int least, most;
  };
  struct Size {
    Bytes Settings::* member;
    Bytes least, most;
  };
  template <class Enum, std::size_t count>
  struct Choice {
    Enum Settings::* member;
    std::array<std::string_view, count> names;  ///< in the order of the values
  };
  /// Seconds for Settings::proof_limit, or "trust" for trust_long_proofs.
  struct ProofLimit {};
  using Kind =
      std::variant<Seconds, Text, Switch, Number, Size, Choice<Bootstrap, 4>, Choice<Network, 4>,
                   Choice<Wire, 3>, Choice<GpuDirectUse, 3>, Choice<Reproducible, 5>, ProofLimit>;

  std::string_view name;  ///< that of the member
  Kind kind;
  std::string_view summary;
  std::string_view expected{};  ///< empty: what the kind expects

  /// CAPSTAN_ and the name in capitals.
  std::string variable() const;
  /// Throws InvalidArgument, "LABEL='TEXT': expected ...".
  void read(Settings& settings, std::string_view label, std::string_view text) const;
  /// As read() takes it.
  std::string text(const Settings& settings) const;
  bool is_secret() const;
};

/// The values of CAPSTAN_WIRE, in the order of Wire.
inline constexpr std::array<std::string_view, 3> wire_names{"plain", "authenticated", "encrypted"};

/// All members of Settings, once.
std::span<const Setting> setting_table();

}  // namespace capstan
