// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace capstan {

/// Names the job on this host after the launcher's process, for launchers that give their ranks no
/// identity: the nearest ancestor that is an MPI launcher, so that scripts between it and the rank
/// do not matter, or else the parent. The process's start time guards against reuse of its number.
std::string launcher_process_identity();

/// Which of two launchers has started the other one.
enum class Inner { launcher, slurm, unknown };

/// Compares Slurm's step and the launcher nearest among the ancestors, by the variables that this
/// one has been started with: `slurms` (name and value) are among them if the step has started it.
Inner inner_launcher(std::span<const std::pair<std::string, std::string>> slurms);

/// Whether this process descends from that one; also true where that cannot be seen.
bool descends_from(pid_t ancestor);

/// The path of the file of this name that the nearest ancestor has mapped, of the same user or
/// root; empty where none has. A launcher's own library, for example.
std::string mapped_by_ancestor(std::string_view name);

}  // namespace capstan
