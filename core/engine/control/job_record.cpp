// SPDX-License-Identifier: Apache-2.0
#include "core/engine/control/job_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include <string_view>

#include "capstan/version.hpp"

namespace capstan {
namespace {

/// Control may differ from version to version.
constexpr std::uint64_t layout =
    0x6361'7073'7461'6e00 ^ (std::uint64_t{sizeof(Control)} << 32) ^
    ((CAPSTAN_VERSION_MAJOR << 16) | (CAPSTAN_VERSION_MINOR << 8) | CAPSTAN_VERSION_PATCH);

/// "2-5,8 b;6 c;"; hosts that have no room are left out.
void write(char (&to)[sizeof(JobRecord::elsewhere)], const std::vector<RanksOnHost>& hosts) {
  std::string text;
  for (const RanksOnHost& each : hosts) {
    std::string one;
    for (const auto& [first, last] : each.runs)
      one += fmt::format("{}{}-{}", one.empty() ? "" : ",", first, last);
    one += fmt::format(" {};", each.host);
    if (text.size() + one.size() >= sizeof to) break;
    text += one;
  }
  std::memset(to, 0, sizeof to);
  text.copy(to, text.size());
}

/// Leaves out facts that it cannot read.
std::vector<RanksOnHost> hosts_in(std::string_view text, int ranks) {
  std::vector<RanksOnHost> hosts;
  for (std::size_t end = 0; (end = text.find(';')) != text.npos; text.remove_prefix(end + 1)) {
    std::string_view one = text.substr(0, end);
    const std::size_t space = one.find(' ');
    if (space == one.npos) continue;
    RanksOnHost host{.host = std::string{one.substr(space + 1)}};
    const char *at = one.data(), *const stop = one.data() + space;
    for (int first = 0, last = 0; at < stop; ++at) {
      const auto [dash, begun] = std::from_chars(at, stop, first);
      if (begun != std::errc{} || dash == stop || *dash != '-') break;
      const auto [comma, ended] = std::from_chars(dash + 1, stop, last);
      if (ended != std::errc{} || first < 0 || last < first || last >= ranks) break;
      host.runs.emplace_back(first, last);
      at = comma;
    }
    if (!host.runs.empty()) hosts.push_back(std::move(host));
  }
  return hosts;
}

}  // namespace

bool RanksOnHost::has(int rank) const {
  return std::ranges::any_of(
      runs, [rank](const auto& run) { return run.first <= rank && rank <= run.second; });
}

std::string to_string(const RanksOnHost& ranks) {
  std::string text;
  int count = 0;
  for (const auto& [first, last] : ranks.runs) {
    const bool is_last = &ranks.runs.back().first == &first;
    text += text.empty() ? "" : is_last ? " and " : ", ";
    text += first == last ? fmt::to_string(first) : fmt::format("{} to {}", first, last);
    count += last - first + 1;
  }
  return count == 1 ? fmt::format("rank {} is on {}", text, ranks.host)
                    : fmt::format("ranks {} are on {}", text, ranks.host);
}

std::vector<RanksOnHost> other_hosts(const ByRank<Process>& processes, Rank self) {
  std::vector<RanksOnHost> hosts;
  for (const Rank rank : all_ranks(processes.size())) {
    const std::string& name = processes[rank].host;
    if (name == processes[self].host) continue;
    auto host = std::ranges::find(hosts, name, &RanksOnHost::host);
    if (host == hosts.end()) host = hosts.insert(hosts.end(), {name, {}});
    const int number = static_cast<int>(rank.value());
    if (!host->runs.empty() && host->runs.back().second + 1 == number)
      host->runs.back().second = number;
    else
      host->runs.emplace_back(number, number);
  }
  return hosts;
}

void publish(JobRecord& record, const JobMember& member) {
  write(record.elsewhere, member.elsewhere);
  record.world = member.world;
  record.rank = member.rank, record.ranks = member.ranks, record.process = member.process;
  record.layout.store(layout, std::memory_order_release);
}

std::optional<JobMember> read(const JobRecord& record) {
  if (record.layout.load(std::memory_order_acquire) != layout) return std::nullopt;
  JobMember member{record.world, record.rank, record.ranks, record.process};
  constexpr int most_ranks = 1 << 24;
  const bool possible = member.rank >= 0 && member.rank < member.ranks && member.ranks < most_ranks;
  if (!possible) return std::nullopt;
  const char* const end = std::find(std::begin(record.elsewhere), std::end(record.elsewhere), 0);
  member.elsewhere = hosts_in({record.elsewhere, end}, member.ranks);
  return member;
}

}  // namespace capstan
