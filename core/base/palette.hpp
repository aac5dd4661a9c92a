// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

/// One colour for each verb in all pictures: of schedules, of simulated calls and of calls that
/// ran. They are Okabe and Ito's, which the colour-blind tell apart in light and in the dark.
namespace capstan::palette {

inline constexpr std::string_view copy = "#56b4e9";    ///< and reading memory of a peer
inline constexpr std::string_view reduce = "#0072b2";  ///< and all work of a rank
inline constexpr std::string_view put = "#009e73";     ///< and sending
inline constexpr std::string_view signal = "#d55e00";
inline constexpr std::string_view wait = "#e69f00";    ///< and receiving
inline constexpr std::string_view notify = "#cc79a7";  ///< and flushing
inline constexpr std::string_view slot = "#f0e442";    ///< waiting for a free slot
inline constexpr std::string_view other = "#999999";
/// The critical path, over all of them: black, or white in the dark.
inline constexpr std::string_view critical = "#000000", critical_in_the_dark = "#ffffff";

}  // namespace capstan::palette
