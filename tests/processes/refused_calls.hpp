// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace capstan {

/// A system call; or those of its calls only whose argument has a value, or one of some bits.
struct CallPattern {
  enum class When { always, equal, any_bit };

  std::string_view name;  ///< for messages and command lines
  long number = 0;
  When when = When::always;
  unsigned argument = 0;  ///< from 0
  std::uint32_t value = 0;
};

/// The calls that Capstan does without where the system refuses them.
std::span<const CallPattern> optional_calls();

/// Calls that Capstan may need, also in the middle of a job.
std::span<const CallPattern> needed_calls();

/// From now on such calls of all threads of this process, and of all that it starts, end in
/// `action`, one of SECCOMP_RET_.... Throws SystemError.
void filter_calls(std::span<const CallPattern> calls, std::uint32_t action);

}  // namespace capstan
