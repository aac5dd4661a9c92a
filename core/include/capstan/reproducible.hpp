// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "capstan/export.hpp"

namespace CAPSTAN_EXPORT capstan {

/// The changes over which results that round keep their bits, from least to most: see
/// Settings::reproducible.
enum class Reproducible : std::uint8_t {
  none,       ///< nothing: even the ranks of one all_reduce may differ in their last bits
  run,        ///< runs of one program on the same ranks
  shape,      ///< and lengths of calls, positions in them, buffers and how calls are cut or joined
  placement,  ///< and hosts, transports, algorithms and profiles
  rank_order  ///< and they are those of adding in the order of ranks, one after the other
};
/// "rank_order".
std::string_view name_of(Reproducible promise);

}  // namespace CAPSTAN_EXPORT capstan
