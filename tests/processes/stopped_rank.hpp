// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include "tests/processes/processes.hpp"
#include "tests/temporary_folder.hpp"

namespace capstan {

/// Three ranks of a command, of which rank 1 stops itself. It is killed when both others have
/// reported, so that the job ends by itself, however slow the machine is.
inline CommandResult run_with_a_stopped_rank(
    const std::string& command,
    const std::vector<std::pair<std::string, std::string>>& environment) {
  const test::TemporaryFolder folder;
  const std::string script = fmt::format(
      "if [ $CAPSTAN_RANK = 1 ]; then {0} & echo $! > {1}/stopped; wait; exit 0; fi; "
      "{0}; echo reported >> {1}/others; "
      "[ $(wc -l < {1}/others) != 2 ] || kill -KILL $(cat {1}/stopped) 2>/dev/null; true",
      command, folder.path().string());
  return run_command(
      {CAPSTAN_PROGRAM, "run", "-n", "3", "--timeout", "100", "--", "sh", "-c", script},
      environment);
}

}  // namespace capstan
