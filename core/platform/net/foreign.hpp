// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "capstan/quantity.hpp"

namespace capstan {

/// Values that a peer has written become values of this rank's types here: what indexes a table,
/// sizes a copy or names a thing of this rank is checked first. All functions throw Aborted, which
/// names the peer, the field and the value: its memory has been overwritten, or it is another
/// version of Capstan.
class Foreign {
 public:
  Foreign(Rank self, Rank peer) : self_(self), peer_(peer) {}

  /// An enumerator, of an enumeration that counts from 0 to `last`.
  template <class Enum>
    requires std::is_enum_v<Enum>
  Enum enumerator(std::string_view field, std::uint64_t value, Enum last) const {
    return static_cast<Enum>(at_most(field, value, static_cast<std::uint64_t>(last)));
  }
  std::uint64_t at_most(std::string_view field, std::uint64_t value, std::uint64_t most) const {
    if (value > most) refuse(field, value);
    return value;
  }
  /// Refuses the value unless `holds`.
  void require(bool holds, std::string_view field, std::uint64_t value) const {
    if (!holds) refuse(field, value);
  }
  [[noreturn]] void refuse(std::string_view field, std::uint64_t value) const;

 private:
  Rank self_, peer_;
};

}  // namespace capstan
