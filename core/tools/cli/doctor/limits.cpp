// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/limits.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include "core/tools/cli/doctor/probe.hpp"

namespace capstan::cli {
namespace {

/// Descriptors that a communicator needs besides those for its peers, at most: listeners, pollers.
constexpr std::uint64_t of_each_communicator = 12;

Probe descriptors() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const std::uint64_t used = open_descriptors();
  const std::uint64_t left = limit.rlim_cur > used ? limit.rlim_cur - used : 0;
  const auto value = fmt::format(
      "{} of at most {} are open: over a network each communicator and group takes one for each "
      "peer that it talks to, and up to {} more; on one host each process takes one, once",
      used, limit.rlim_cur, of_each_communicator);
  constexpr std::uint64_t enough = 256;
  if (left >= enough) return {"descriptors", Probe::Status::ok, value};
  const auto status = left < of_each_communicator ? Probe::Status::problem : Probe::Status::note;
  return {
      "descriptors", status, value,
      fmt::format("raise the limit: ulimit -n {} (RLIMIT_NOFILE)",
                  limit.rlim_max == RLIM_INFINITY ? "unlimited" : fmt::to_string(limit.rlim_max))};
}

/// The limits that a start can fail at, where one is set.
Probe other_limits() {
  std::vector<std::string> set;
  const auto look = [&](int resource, const char* what, const char* option) {
    const Limit limit = limit_of(resource);
    if (limit.is_set()) set.push_back(fmt::format("{} {} ({})", what, limit.most, option));
  };
  look(RLIMIT_AS, "address space", "ulimit -v");
  look(RLIMIT_FSIZE, "bytes of shared memory in one piece", "ulimit -f");
  look(RLIMIT_NPROC, "processes and threads", "ulimit -u");
  if (set.empty()) return {"limits", Probe::Status::ok, "none on memory, files and threads"};
  return {"limits", Probe::Status::note, fmt::format("{}", fmt::join(set, ", ")),
          "raise those at which a start fails; its error names them"};
}

}  // namespace

Probes limit_probes() {
  return {descriptors, other_limits};
}

}  // namespace capstan::cli
