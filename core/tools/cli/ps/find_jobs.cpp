// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/ps/find_jobs.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>

#include "core/platform/net/file_descriptor.hpp"

namespace capstan::cli {
namespace {

namespace fs = std::filesystem;

/// The number of a process among those of its own name space, which may be another one.
int number_inside(const fs::path& folder, int process) {
  std::ifstream status{folder / "status"};
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("NSpid:")) continue;
    std::istringstream numbers{line.substr(6)};
    for (int number = 0; numbers >> number;) process = number;
  }
  return process;
}

/// The begin of each shared memory of Capstan in a process, by inode.
std::map<std::uint64_t, std::uint64_t> segments_in(const fs::path& folder) {
  std::map<std::uint64_t, std::uint64_t> found;
  std::ifstream maps{folder / "maps"};
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:capstan") == line.npos) continue;
    // "7f10-7f20 r--s 00000000 00:01 1234   /memfd:capstan (deleted)"
    std::istringstream fields{line};
    std::string range, rights, offset, device;
    std::uint64_t inode = 0, address = 0;
    fields >> range >> rights >> offset >> device >> inode;
    std::from_chars(range.data(), range.data() + range.find('-'), address, 16);
    if (offset.find_first_not_of('0') == offset.npos) found.emplace(inode, address);
  }
  return found;
}

/// A control page with the alignment that its words need.
std::unique_ptr<Control> read_control(const Mapper& mapper) {
  const FileDescriptor memory{
      ::open(fmt::format("/proc/{}/mem", mapper.process).c_str(), O_RDONLY | O_CLOEXEC)};
  if (!memory.valid()) return nullptr;
  auto control = std::make_unique<Control>();
  const auto read = ::pread(memory.get(), static_cast<void*>(control.get()), sizeof *control,
                            static_cast<off_t>(mapper.address));
  return read == static_cast<ssize_t>(sizeof *control) ? std::move(control) : nullptr;
}

struct Inside {
  int process = 0, number = 0;  // and what it is among those of its name space
};

/// The memory of one inode, and the processes that map it.
struct Found {
  std::vector<Mapper> mappers;
  std::vector<Inside> processes;
};

std::optional<RankInJob> rank_in(const Found& found) {
  RankInJob rank{.member = {}, .mappers = found.mappers};
  const auto control = copy_control(rank);
  const auto member = control ? read(control->job) : std::nullopt;
  if (!member) return std::nullopt;
  rank.member = *member;
  const auto own = std::ranges::find(found.processes, member->process, &Inside::number);
  if (own != found.processes.end()) rank.process = own->process;
  return rank;
}

void add(std::vector<Job>& jobs, RankInJob rank) {
  const JobMember& member = rank.member;
  auto job = std::ranges::find(jobs, member.world, &Job::world);
  if (job == jobs.end()) job = jobs.insert(jobs.end(), {member.world, member.ranks, {}});
  if (member.ranks == job->ranks) job->here.push_back(std::move(rank));
}

}  // namespace

FoundJobs find_jobs(const fs::path& proc) {
  std::map<std::uint64_t, Found> by_inode;
  FoundJobs all;
  std::error_code gone;  // processes may end meanwhile
  for (const auto& entry : fs::directory_iterator{proc, gone}) {
    const std::string name = entry.path().filename();
    int process = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), process).ec != std::errc{})
      continue;
    const auto segments = segments_in(entry.path());
    if (segments.empty()) continue;
    if (::access((entry.path() / "mem").c_str(), R_OK) != 0 ||
        !FileDescriptor{::open((entry.path() / "mem").c_str(), O_RDONLY | O_CLOEXEC)}.valid()) {
      ++all.forbidden;
      continue;
    }
    const Inside inside{process, number_inside(entry.path(), process)};
    for (const auto& [inode, address] : segments) {
      by_inode[inode].mappers.push_back({process, address});
      by_inode[inode].processes.push_back(inside);
    }
  }
  for (const auto& [inode, found] : by_inode)
    if (auto rank = rank_in(found)) add(all.jobs, std::move(*rank));
  for (Job& job : all.jobs)
    std::ranges::sort(job.here, {}, [](const RankInJob& rank) { return rank.member.rank; });
  return all;
}

std::unique_ptr<const Control> copy_control(const RankInJob& rank) {
  for (const Mapper& mapper : rank.mappers)
    if (auto control = read_control(mapper)) return control;
  return nullptr;
}

char state_of(int process) {
  std::string stat;
  std::getline(std::ifstream{fmt::format("/proc/{}/stat", process)}, stat);
  const auto name_end = stat.rfind(')');
  return name_end == stat.npos || name_end + 2 >= stat.size() ? '\0' : stat[name_end + 2];
}

std::string command_of(int process) {
  std::ifstream file{fmt::format("/proc/{}/cmdline", process), std::ios::binary};
  std::string words{std::istreambuf_iterator<char>{file}, {}};
  while (!words.empty() && words.back() == '\0') words.pop_back();
  std::ranges::replace(words, '\0', ' ');
  return words;
}

}  // namespace capstan::cli
