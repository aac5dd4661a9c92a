// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace capstan {

/// Joins, forks at a moment ("before", "idle", "flight", "callback", "operation"), and continues:
/// the child does a deed ("destroy", "call", "exit", "quit", "exec", "join", "return"), the parent
/// checks that all its results are right. Status 0: both were content.
int fork_and_go_on(const std::string& moment_and_deed);

/// Joins and ends by exit(), or in a destructor that exit() runs, with operations under way:
/// "static", "function", "thread", "second", "callback", "late". Does not come back, or throws what
/// peers that ended first have caused.
int end_by_exit(const std::string& how);

/// Makes groups and prints how many descriptors this rank has open before and after. Status 0.
int tell_descriptors_of_groups();

}  // namespace capstan
