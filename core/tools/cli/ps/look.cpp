// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/ps/look.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <thread>

#include "core/engine/control/call_log.hpp"
#include "core/engine/control/rank_names.hpp"
#include "core/engine/run/diagnosis.hpp"

namespace capstan::cli {
namespace {

/// A rank, as several looks have found it.
class Watched {
 public:
  explicit Watched(const RankInJob& rank) : rank_(&rank) {}

  /// A wait that was published once counts, unless the rank has finished calls since: between the
  /// slices of a wait a rank may be outside of it for a moment, such as Python's to see signals.
  void look() {
    auto now = copy_control(*rank_);
    if (!now) return;
    const auto published = read(now->wait);  // nothing while it is being written
    const std::uint64_t finished = now->finished.calls.load();
    if (control_ && finished != control_->finished.calls.load()) moves_ = true, wait_ = {};
    if (published && beat_ && published->beat != *beat_) moves_ = true;
    if (published) beat_ = published->beat;
    if (published && published->wait.kind != Wait::Kind::none) wait_ = published->wait;
    control_ = std::move(now);
  }

  const RankInJob& rank() const { return *rank_; }
  const Control* control() const { return control_.get(); }
  const Wait& wait() const { return wait_; }
  bool moves() const { return moves_; }
  std::uint64_t finished() const { return control_ ? control_->finished.calls.load() : 0; }
  std::vector<SeenCall> calls() const {
    std::vector<SeenCall> calls;
    if (!control_) return calls;
    for (const CallRecord& record : control_->calls)
      if (const auto mark = read(record)) calls.push_back({record.call.load(), *mark});
    std::ranges::sort(calls, {}, &SeenCall::number);
    return calls;
  }

 private:
  const RankInJob* rank_;
  std::unique_ptr<const Control> control_;
  Wait wait_{};
  std::optional<std::uint64_t> beat_;
  bool moves_ = false;
};

SeenRank rank_of(const Watched& watched, std::chrono::milliseconds time) {
  const RankInJob& rank = watched.rank();
  SeenRank seen{.rank = rank.member.rank,
                .process = rank.process,
                .state = rank.process ? state_of(rank.process) : '\0',
                .finished = watched.finished(),
                .calls = watched.calls()};
  if (!seen.calls.empty()) {
    seen.begun = seen.calls.back().number;
    seen.call = to_string(seen.calls.back().mark);
  }
  seen.begun = std::max(seen.begun, seen.finished);
  RankView& view = seen.view;
  view.wait = watched.wait();
  std::erase_if(view.wait.peers,
                [&](Rank peer) { return peer.value() < 0 || peer.value() >= rank.member.ranks; });
  view.stopped = seen.state == 'T' || seen.state == 't';
  view.moved_lately = watched.moves();
  view.quiet = !watched.moves() && view.wait.kind != Wait::Kind::none && !view.wait.gave_up;
  if (view.quiet) view.wait.waited += time;
  if (watched.control() && watched.control()->left.load() != 0) view.left = true;
  if (seen.state == '\0' || seen.state == 'Z' || view.left)
    view.departed = view.left ? "it has left" : "its process has ended";
  return seen;
}

/// The rank here that has waited for the longest time; the end: none waits.
auto longest_waiter(const std::vector<SeenRank>& here) {
  const auto waited = [](const SeenRank& rank) {
    const Wait& wait = rank.view.wait;
    const bool waits = wait.kind != Wait::Kind::none && !wait.gave_up && !rank.view.departed;
    return waits ? wait.waited : std::chrono::milliseconds{-1};
  };
  const auto longest = std::ranges::max_element(here, {}, waited);
  return longest != here.end() && waited(*longest).count() >= 0 ? longest : here.end();
}

/// "rank 3 is on b", or on another host.
std::string place_of(int rank, const SeenJob& job) {
  const auto host = std::ranges::find_if(
      job.other_hosts, [rank](const RanksOnHost& each) { return each.has(rank); });
  return fmt::format("rank {} is on {}", rank,
                     host == job.other_hosts.end() ? "another host" : host->host);
}

void judge(SeenJob& job) {
  const auto waiter = longest_waiter(job.here);
  if (waiter == job.here.end()) return;
  ByRank<RankView> views(job.ranks);
  ByRank<Process> processes(job.ranks);
  ByRank<char> is_here(job.ranks);
  const Process own = Process::own();
  for (const SeenRank& rank : job.here) {
    views[Rank{rank.rank}] = rank.view;
    processes[Rank{rank.rank}] = {own.host, rank.process, own.space};
    is_here[Rank{rank.rank}] = 1;
  }
  ByRank<int> world(job.ranks);
  std::iota(world.begin(), world.end(), 0);
  const RankNames names{world, processes};
  const Diagnosis diagnosis{names, WaitGraph{Rank{waiter->rank}, std::move(views)}};
  for (const Culprit& culprit : diagnosis.culprits())
    if (is_here[culprit.world_rank])
      job.culprits.push_back(culprit);
    else
      job.elsewhere.push_back(culprit.world_rank.value());
  job.chain = diagnosis.chain();
  if (job.elsewhere.empty())
    job.verdict = diagnosis.verdict();
  else
    job.verdict = fmt::format(
        "rank {} waits for {} in {}, for {}: {}, where `capstan ps` tells more{}", waiter->rank,
        list_of(waiter->view.wait.peers), to_string(waiter->view.wait),
        capstan::seconds(waiter->view.wait.waited), place_of(job.elsewhere.front(), job),
        job.elsewhere.size() == 1
            ? ""
            : fmt::format(", and {} more on other hosts", job.elsewhere.size() - 1));
}

}  // namespace

std::vector<const SeenRank*> living_culprits(const SeenJob& job) {
  std::vector<const SeenRank*> ranks;
  for (const Culprit& culprit : job.culprits)
    if (const auto rank = std::ranges::find(job.here, culprit.world_rank.value(), &SeenRank::rank);
        rank != job.here.end() && rank->process && !rank->view.departed)
      ranks.push_back(&*rank);
  return ranks;
}

void read_stacks(SeenJob& job) {
  for (const SeenRank* const culprit : living_culprits(job))
    std::ranges::find(job.here, culprit->rank, &SeenRank::rank)->stacks =
        stacks_of(culprit->process);
}

SeenJob look_at(const Job& job, std::chrono::milliseconds time) {
  constexpr int looks = 20;
  SeenJob seen{.world = job.world, .ranks = job.ranks};
  std::vector<Watched> watched(job.here.begin(), job.here.end());
  for (int i = 0; i < looks; ++i) {
    if (i > 0) std::this_thread::sleep_for(time / looks);
    for (Watched& each : watched) each.look();
  }
  for (const Watched& each : watched) seen.here.push_back(rank_of(each, time));
  for (const SeenRank& rank : seen.here)
    if (seen.command.empty() && rank.process) seen.command = command_of(rank.process);
  if (job.here.size() < static_cast<std::size_t>(job.ranks) && !job.here.empty())
    seen.other_hosts = job.here.front().member.elsewhere;
  judge(seen);
  return seen;
}

}  // namespace capstan::cli
