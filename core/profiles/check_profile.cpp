// SPDX-License-Identifier: Apache-2.0
#include "core/profiles/check_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace capstan {
namespace {

/// Looks over one group.
class GroupCheck {
 public:
  GroupCheck(const MeasuredGroup& group, std::vector<std::string>& findings)
      : group_(group), findings_(findings) {}

  void run() {
    if (group_.ranks < 2) report("no call reaches it: a single rank has no choice");
    if (group_.hosts > 1 && group_.network.empty())
      report("no call reaches it: several hosts need a network");
    if (group_.hosts > 1 && group_.devices)
      report("no call reaches it: devices of several hosts do not reach each other");
    for (const MeasuredCell& cell : group_.cells) check_cell(cell);
    for (const auto& [collective, cells] : by_size_) check_sizes(cells);
    check_parts();
  }

 private:
  using BySize = std::map<Bytes, const MeasuredCell*>;

  void report(const std::string& what) {
    findings_.push_back(fmt::format("{}: {}", name_of(group_), what));
  }
  static std::string name(const MeasuredCell& cell) {
    return fmt::format("{} of {} bytes", name_of(cell.collective), cell.bytes.value());
  }

  void check_cell(const MeasuredCell& cell) {
    if (!by_size_[cell.collective].emplace(cell.bytes, &cell).second)
      report(name(cell) + ": it stands there twice, and the last one counts");
    if (cell.ways.empty()) report(name(cell) + ": it has no ways, so that the model decides");
    if (const std::string doubt = cell.doubt(); !doubt.empty())
      report(fmt::format("{}: it decides nothing ({}): measure it again on a quiet machine",
                         name(cell), doubt));
    if (has_counts(cell.collective)) report(name(cell) + ": no call reaches it");
    for (const MeasuredWay& way : cell.ways) {
      if (group_.ranks > way.algorithm->max_ranks)
        report(fmt::format("{}: {} is made for up to {} ranks", name(cell), way.algorithm->name,
                           way.algorithm->max_ranks));
      if (group_.hosts > 1 && reads_buffers(way.protocol))
        report(fmt::format("{}: {} reads memory of other hosts", name(cell), way.algorithm->name));
      if (group_.devices && reads_buffers(way.protocol))
        report(fmt::format("{}: {} does not run on devices", name(cell), name_of(way)));
      if (!(way.nanoseconds > 0))
        report(fmt::format("{}: {} takes no time", name(cell), way.algorithm->name));
    }
  }

  void check_sizes(const BySize& cells) {
    constexpr double falls = 0.5, cliff = 4;
    for (auto next = cells.begin(); next != cells.end(); ++next) {
      if (next == cells.begin()) continue;
      const MeasuredCell &before = *std::prev(next)->second, &cell = *next->second;
      if (before.ways.empty() || cell.ways.empty()) continue;
      if (before.bytes * widest_gap < cell.bytes)
        report(fmt::format("{}: nothing is known between {} bytes and this", name(cell),
                           before.bytes.value()));
      const double ratio = cell.ways.front().nanoseconds / before.ways.front().nanoseconds;
      const double growth = static_cast<double>(cell.bytes.value()) /
                            static_cast<double>(std::max<std::uint64_t>(before.bytes.value(), 1));
      if (ratio < falls)
        report(fmt::format("{}: it takes {:.2f} times as long as {} bytes: measure it again",
                           name(cell), ratio, before.bytes.value()));
      if (ratio > cliff * growth)
        report(fmt::format("{}: a cliff, {:.1f} times as long as {} bytes", name(cell), ratio,
                           before.bytes.value()));
    }
  }

  /// An all_reduce is a reduce_scatter and an all_gather.
  void check_parts() {
    constexpr double more = 1.1;
    for (const auto& [bytes, whole] : by_size_[Collective::all_reduce]) {
      const auto fastest = [&](Collective collective) {
        const auto found = by_size_[collective].find(bytes);
        return found == by_size_[collective].end() || found->second->ways.empty()
                   ? 0
                   : found->second->ways.front().nanoseconds;
      };
      const double parts[] = {fastest(Collective::reduce_scatter), fastest(Collective::all_gather)};
      if (parts[0] > 0 && parts[1] > 0 && !whole->ways.empty() &&
          whole->ways.front().nanoseconds > more * (parts[0] + parts[1]))
        report(name(*whole) + ": it is slower than reduce_scatter and all_gather together");
    }
  }

  const MeasuredGroup& group_;
  std::vector<std::string>& findings_;
  std::map<Collective, BySize> by_size_;
};

}  // namespace

std::vector<std::string> check_profile(const Profile& profile, const Fingerprint& machine) {
  std::vector<std::string> findings;
  if (const std::string reason = mismatch(profile, machine); !reason.empty())
    findings.push_back("the library ignores it here: " + reason);
  for (const MeasuredGroup& group : profile.groups) GroupCheck{group, findings}.run();
  for (std::size_t i = 0; i < profile.groups.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (const MeasuredGroup &a = profile.groups[i], &b = profile.groups[k]; a.is_like(b))
        findings.push_back(
            fmt::format("{}: two groups overlap, and the last cells count", name_of(a)));
  return findings;
}

}  // namespace capstan
