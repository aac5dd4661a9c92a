// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/engine/control/job_record.hpp"

namespace capstan::cli {

/// A process that maps the segment of a rank: one by which the segment can be read.
struct Mapper {
  int process = 0;
  std::uint64_t address = 0;
};

/// A rank of a running job on this machine, which other ranks see by its segment.
struct RankInJob {
  JobMember member;
  int process = 0;  ///< as this process sees its number; 0: it is gone
  std::vector<Mapper> mappers{};
};

struct Job {
  std::uint64_t world = 0;
  int ranks = 0;
  std::vector<RankInJob> here{};  ///< in rising order; ranks on other machines are not among them
};

struct FoundJobs {
  std::vector<Job> jobs{};
  int forbidden = 0;  ///< processes with memory of Capstan that this one may not read
};

/// Looks at the memory of all processes that this one may read. Needs no help from the jobs, and
/// changes nothing in them.
FoundJobs find_jobs(const std::filesystem::path& proc = "/proc");

/// A copy of what a rank publishes; null if nobody who maps it can be read any more.
std::unique_ptr<const Control> copy_control(const RankInJob& rank);

/// The state of a process in ps(1)'s letters: R, S, T ...; 0 if there is no such process.
char state_of(int process);
/// Its command line, with spaces between the words.
std::string command_of(int process);

}  // namespace capstan::cli
