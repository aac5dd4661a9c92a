// SPDX-License-Identifier: Apache-2.0

// How the engine notices that peers are gone, or do not come, and gives up.

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <thread>

#include "capstan/error.hpp"
#include "core/engine/run/engine.hpp"
#include "core/engine/run/message_judge.hpp"
#include "core/engine/run/progress.hpp"
#include "core/platform/net/limits.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;

// After a loss a rank asks so many others whether they are there: not all of a large world.
constexpr int most_asked = 64;
// Shorter waits are not published.
constexpr auto shortest_wait = 10ms;

}  // namespace

/// A rank checks its peers while it waits for them. A rank that never waits (the first of a chain)
/// would not learn that the others are gone. It therefore checks now and then between calls.
void Engine::check_peers() {
  calls_since_check_ = 0;
  try {
    receive_from_hosts();
    watchdog_.check_aborts();
    const auto now = std::chrono::steady_clock::now();
    const Executor::Report report = executor().report();
    check_departures(report, collective_wait(report, now), now);
  } catch (const Error& error) {
    fail(Failure::of(error));
  }
}

void Engine::check(Time now) {
  try {
    watchdog_.check_aborts();
    if (!tasks_.empty() || needs_peers()) check_tasks(now);
    if (!messages_.idle()) {
      Judge judge{*this, now};
      messages_.check(now, judge);
    }
    if (!failure_) warn_of_long_wait(now);
  } catch (const Error& error) {
    fail(Failure::of(error));
  }
}

void Engine::check_departures(const Executor::Report& report, Wait own, Time now) {
  const auto lost = watchdog_.lost(report.needed_blocks);
  if (lost.empty()) return losses_.forget();
  const bool all_known = watch_others();
  const std::vector<Rank> dead = dead_peers();
  if (!losses_.are_complete(lost.size() + dead.size(), all_known, now)) return;
  own.peers.clear();
  for (const auto& [peer, reason] : lost) own.peers.push_back(world_rank(peer));
  for (const Rank peer : dead) own.peers.push_back(world_rank(peer));
  std::ranges::sort(own.peers);
  own.peers.erase(std::ranges::unique(own.peers).begin(), own.peers.end());
  const Rank first = lost.front().first;
  const auto what = fmt::format("Rank {} lost rank {} ({}) in {}{}", self_.value(), first.value(),
                                lost.front().second, report.position, names_.of_group());
  std::rethrow_exception(error_of(diagnose(own, now), what, first));
}

/// The peers that have ended without leaving, whether this call needs them or not.
std::vector<Rank> Engine::dead_peers() {
  std::vector<Rank> dead;
  for (const Rank peer : peers_.others())
    if (watchdog_.departed(peer)) dead.push_back(peer);
  receive_from_hosts();  // a peer that leaves has said so before it ended
  std::erase_if(dead, [this](Rank peer) { return peers_.left(peer); });
  return dead;
}

/// The end of a peer that this rank has nothing to do with is noticed from now on. True: it is
/// known of all of them whether they are there.
bool Engine::watch_others() {
  bool all_known = true;
  for (int distance = 1; distance < std::min(ranks_, most_asked + 1); ++distance) {
    try {
      all_known &= transport_->watch(Rank{(self_.value() + distance) % ranks_});
    } catch (const SystemError&) {  // no descriptors are left: the loss is what counts
      break;
    }
  }
  return all_known;
}

/// Throws where this rank waits in vain in its first task, or between tasks.
void Engine::check_tasks(Time now) {
  Executor& by = executor();
  if (by.progress() != seen_progress_ || stalled_since_ == Time{}) {
    seen_progress_ = by.progress();
    stalled_since_ = now;
  }
  const Executor::Report report = by.report();
  const Wait wait = collective_wait(report, now);
  for (const Rank peer : report.awaited) transport_->watch(peer);
  check_departures(report, wait, now);
  by.compare_calls();
  if (!is_late(wait.waited)) return;
  const Diagnosis diagnosis = diagnose(wait, now);
  if (may_wait_longer(diagnosis, wait.waited)) return;
  const auto what = fmt::format("Rank {} waited {} s for {} in {}{}", self_.value(),
                                std::chrono::duration<double>(settings_.timeout).count(),
                                list_of(report.awaited), report.position, names_.of_group());
  std::rethrow_exception(
      error_of(diagnosis, what, report.awaited.empty() ? self_ : report.awaited.front()));
}

Survivors& Engine::survivors() {
  const Progress::Lock lock{*progress_};
  if (!survivors_)
    survivors_ = std::make_unique<Survivors>(*progress_, peers_, watchdog_, world_ranks_, names_);
  return *survivors_;
}

// --- Whom this rank waits for ---

Engine::Time::duration Engine::stalled_for(Time now) const {
  const bool stalls =
      running_ && stalled_since_ != Time{} && executor().progress() == seen_progress_;
  return stalls ? now - stalled_since_ : Time::duration{};
}

Wait Engine::collective_wait(const Executor::Report& report, Time now) const {
  Wait wait{.kind = report.kind,
            .peer_count = static_cast<int>(report.awaited.size()),
            .waited = std::chrono::duration_cast<std::chrono::milliseconds>(stalled_for(now)),
            .call = report.mark,
            .number = report.call,
            .step = report.step,
            .steps = report.steps,
            .group_size = names_.of_group().empty() ? 0 : static_cast<std::uint32_t>(ranks_)};
  for (const Rank peer : report.awaited) wait.peers.push_back(world_rank(peer));
  std::ranges::sort(wait.peers);
  return wait;
}

Wait Engine::message_wait(const Messages::MessageTransfer& transfer, int peer,
                          Time::duration waited) const {
  Wait wait{
      .kind = transfer.forms_group ? Wait::Kind::form
              : transfer.sends     ? Wait::Kind::send
                                   : Wait::Kind::receive,
      .any = peer == any_source,
      .waited = std::chrono::duration_cast<std::chrono::milliseconds>(waited),
      .number = transfer.tag == any_tag ? Wait::any_tag : static_cast<std::uint64_t>(transfer.tag),
      .group_size = names_.of_group().empty() ? 0 : static_cast<std::uint32_t>(ranks_)};
  for (const Rank other : peers_.others())
    if (wait.any || other == Rank{peer}) wait.peers.push_back(world_rank(other));
  if (Rank{peer} == self_) wait.peers.push_back(world_rank(self_));
  std::ranges::sort(wait.peers);
  wait.peer_count = static_cast<int>(wait.peers.size());
  return wait;
}

Wait Engine::wait(Time now) const {
  Wait all;
  if (stalled_for(now) > shortest_wait) add(all, collective_wait(executor().report(), now));
  for (const auto& [peer, transfer, since] : messages_.awaited())
    if (now - since > shortest_wait) add(all, message_wait(*transfer, peer, now - since));
  for (const auto& [message, since] : probes_)
    add(all, message_wait(message, message.peer, now - since));
  return all;
}

Wait Engine::wait_anywhere(Time now) const {
  Wait own = wait(now);
  const Wait& told = progress_->waits().told();
  return own.kind == Wait::Kind::none && !told.gave_up ? told : own;
}

// --- Who keeps it waiting ---

RankView Engine::view_of(Rank world_rank, Time now) const {
  const WaitBoard& waits = progress_->waits();
  const WaitBoard::Seen& seen = waits.seen(world_rank);
  const Process& process = waits.processes()[world_rank];  // of a thread it has no id
  const auto still = std::chrono::duration_cast<std::chrono::milliseconds>(now - seen.moved);
  RankView view{.wait = seen.wait,
                .quiet = process.id != 0 && still > waits.quiet_limit(),
                .stopped = is_stopped(process),
                .moved_lately = still < waits.quiet_limit() / 2};
  if (view.wait.kind != Wait::Kind::none && !view.wait.gave_up) view.wait.waited += still;
  if (const auto member = names_.member(world_rank)) {
    view.left = peers_.left(*member);
    view.departed = watchdog_.departed(*member);
  } else {
    view.departed = progress_->bell().departed(world_rank);
  }
  return view;
}

/// `own`: what this rank waits for. What has arrived until now counts.
Diagnosis Engine::diagnose(Wait own, Time now) {
  progress_->bell().progress();
  progress_->waits().look(now);
  const Rank self = world_rank(self_);
  ByRank<RankView> views(progress_->waits().processes().size());
  for (int rank = 0; rank < views.size(); ++rank)
    if (Rank{rank} != self) views[Rank{rank}] = view_of(Rank{rank}, now);
  for (RankView& view : views)  // who has given up on this rank leads no further
    if (view.wait.gave_up) std::erase(view.wait.peers, self);
  views[self].wait = std::move(own);
  return Diagnosis{names_, WaitGraph{self, std::move(views)}};
}

/// The error of a wait that has ended: see Diagnosis::error(). A peer that the diagnosis has seen
/// leave may have done so because of a failure, which it has published before: that one counts.
std::exception_ptr Engine::error_of(const Diagnosis& diagnosis, const std::string& what,
                                    Rank directly) const {
  auto published = watchdog_.failure_among(peers_.others());
  if (!published) return diagnosis.error(what, directly);
  complete(*published);
  return published->exception();
}

/// A rank that comes late, too, may be about to say for whom it waits.
bool Engine::may_wait_longer(const Diagnosis& diagnosis, Time::duration waited) const {
  const auto patience = std::min<Time::duration>(settings_.timeout / 2, 1s);
  return diagnosis.is_unsettled() && waited < settings_.timeout + patience;
}

/// Other ranks may wait for this one because of it.
void Engine::note_failure(const Error& error) {
  const auto* const of_peer = dynamic_cast<const PeerError*>(&error);
  if (!of_peer) return;
  std::vector<Rank> culprits;
  for (const Culprit& culprit : of_peer->culprits()) culprits.push_back(culprit.world_rank);
  progress_->waits().give_up(std::move(culprits), dynamic_cast<const PeerLost*>(&error) != nullptr);
}

/// The failure for the exception that is being handled. An exception that is not the library's own
/// comes from an operation of the program, or from a lack of memory. It leaves the call half done,
/// so the call fails on all ranks.
Failure Engine::current_failure() const {
  const auto in_call = [&](const char* text) {
    return Failure{Failure::Kind::aborted, Rank{},
                   fmt::format("rank {}: {}; this ended {} and the communicator", self_.value(),
                               text, executor().report().position)};
  };
  try {
    throw;
  } catch (const Error& error) {
    return Failure::of(error);
  } catch (const std::bad_alloc&) {
    return in_call(out_of_memory("it got no memory").what());
  } catch (const std::exception& error) {
    return in_call(error.what());
  } catch (...) {
    return in_call("an exception of unknown type");
  }
}

void Engine::abort(const std::string& reason) {
  abort(Failure{Failure::Kind::aborted, Rank{},
                fmt::format("rank {} aborted the communicator: {}", self_.value(), reason)});
}

void Engine::abort(const std::exception& error) {
  if (const auto known = failure()) return abort(*known);
  const Failure failure = Failure::of(error);
  failure.kind == Failure::Kind::aborted ? abort(failure.text) : abort(failure);
}

void Engine::abort(const Failure& failure) {
  {
    const Progress::Lock lock{*progress_};
    if (survivors_) survivors_->stop();
    if (failure_) return;
    fail(failure);
  }
  push_out_failure();
  progress_->announce();
}

/// Sends the failure to other hosts: no later call of this rank may do that.
void Engine::push_out_failure() {
  constexpr std::chrono::milliseconds patience{100};  // a host that is gone takes nothing
  const auto end = std::chrono::steady_clock::now() + patience;
  const auto is_out = [this] {
    const Progress::Lock lock{*progress_};
    serve();
    return std::ranges::all_of(peers_.posted(),
                               [this](Rank peer) { return transport_->pushed(peer); });
  };
  while (!is_out() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

std::optional<Failure> Engine::failure() {
  auto found = read(peers_.own_control().abort, peers_.count());
  if (!found) found = watchdog_.failure_among(peers_.mapped());
  if (!found && !peers_.posted().empty()) {
    const Progress::Lock lock{*progress_};
    serve();
    found = watchdog_.failure_among(peers_.posted());
  }
  if (found) complete(*found);
  return found;
}

/// The first failure counts.
void Engine::fail(const Failure& failure) {
  if (failure_) return;
  failure_ = failure;
  if (progress_->is_inherited()) return;  // an operation of the program has forked
  complete(*failure_);
  publish(peers_.own_control().abort, *failure_);
  try {
    failure_->raise();
  } catch (const Error& error) {
    note_failure(error);
    peers_.show_end();
    fail_all(std::current_exception());
  }
  for (Engine* const other : fail_together_) other->fail(*failure_);
}

void Engine::share_failures(Engine& other) {
  const Progress::Lock lock{*progress_};
  fail_together_.push_back(&other);
  other.fail_together_.push_back(this);
  if (failure_) other.fail(*failure_);
  if (other.failure_) fail(*other.failure_);
}

/// Adds what this rank knows of culprits that a peer has named by numbers.
void Engine::complete(Failure& failure) const {
  std::erase_if(failure.culprits, [&](const Culprit& culprit) {
    const int rank = culprit.world_rank.value();
    return rank < 0 || rank >= progress_->waits().processes().size() ||
           culprit.state > Culprit::State::dead;
  });
  for (Culprit& culprit : failure.culprits)
    culprit = names_.culprit(culprit.world_rank, culprit.state);
}

void Engine::fail_all(const std::exception_ptr& error) {
  if (std::exchange(running_, false) && !tasks_.empty() && tasks_.front().plan->timed)
    note_end(*tasks_.front().plan, true);
  executor().withdraw_buffers();
  for (Task& task : std::exchange(tasks_, {})) report_end(task, error);
  messages_.fail_all(error);
}

}  // namespace capstan
