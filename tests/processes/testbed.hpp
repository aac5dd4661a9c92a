// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/processes/processes.hpp"

namespace capstan {

/// Runs a bash script beside a testbed of `count` hosts (scripts/hosts), with both its outputs in
/// one. The script has
///
///   ${host[i]}, ${v4[i]}, ${v6[i]}   name and addresses of host i
///   $program                         what ranks are to run: PROGRAM in this test's environment, or
///                                    else the joiner, whose lines most tests look for
///   on I COMMAND...                  on host i
///   launch HOSTS OPTION... -- ...    `capstan run` on host 0
///   by_hand PLACE...                 $program once for each place (the number of a host) with the
///                                    variables that torchrun sets; $MASTER_ADDR is the caller's.
///                                    Rank $stopped, which stops itself, is killed after the others
///
/// Exit status 77: the testbed cannot be made here, and the output says why.
CommandResult beside_hosts(int count, const std::string& script,
                           const std::vector<std::string>& options = {});

}  // namespace capstan
