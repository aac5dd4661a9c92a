// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace capstan::cli {

/// The stacks of a process's threads, as a debugger shows them.
struct Stacks {
  std::string by{};    ///< the program that read them; empty: none could
  std::string text{};  ///< lines; or why there are none
};

/// Reads the stacks by py-spy (of Python alone), eu-stack or gdb, whichever is there. They stop the
/// process meanwhile, which then continues; one that takes longer than 20 s is ended.
Stacks stacks_of(int process);

}  // namespace capstan::cli
