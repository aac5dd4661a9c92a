// SPDX-License-Identifier: Apache-2.0
#include "core/engine/run/survivors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string>
#include <thread>

#include "capstan/error.hpp"
#include "core/engine/run/progress.hpp"
#include "core/platform/net/foreign.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;

/// Nobody waits for long: what is awaited comes from ranks that do nothing else.
constexpr auto between_looks = 20us;

std::string_view name_of(Survivors::Call call) {
  return call == Survivors::Call::shrink ? "shrink()" : "grow()";
}

std::uint32_t bit_of(Survivors::Call call) {
  return static_cast<std::uint32_t>(call);
}

}  // namespace

Survivors::Turn::Turn(Survivors& survivors, Call call, std::chrono::milliseconds patience)
    : survivors_(survivors) {
  if (survivors.taken_.exchange(true))
    throw InvalidArgument(fmt::format(
        "rank {}: {}: another thread is in shrink() or grow() of this communicator: make one of "
        "these calls at a time",
        survivors.peers_.self().value(), name_of(call)));
  survivors.call_ = call;
  survivors.patience_ = patience;
}

Survivors::Opinion Survivors::agree(bool agrees, const Gone& gone, std::span<const std::byte> own) {
  if (ended_) std::rethrow_exception(ended_);
  agreeing_ = true;
  Opinion result = agree_now(agrees, gone, own);
  agreeing_ = false;
  return result;
}

Survivors::Opinion Survivors::agree_now(bool agrees, const Gone& gone,
                                        std::span<const std::byte> own) {
  ++number_;
  Opinion result{agrees, gone, bit_of(call_)};
  for (const Rank rank : peers_.others())
    if (!gone.contains(rank) && is_gone(rank)) note_gone(result, rank);
  announce(own, gone);
  publish(&Record::votes, result, gone);
  for (const Rank rank : peers_.others()) {
    if (gone.contains(rank)) continue;
    Opinion theirs;
    if (!hear(&Record::votes, rank, theirs)) {
      note_gone(result, rank);
      continue;
    }
    result.agrees = result.agrees && theirs.agrees;
    result.calls |= theirs.calls;
    for (const auto& [lost, certain] : theirs.gone) result.gone[lost] |= certain;
  }
  for (int turn = 0; turn < peers_.count(); ++turn) {
    const Rank rank{turn};
    if (gone.contains(rank)) continue;
    if (rank == peers_.self())
      publish(&Record::estimates, result, gone);
    else
      hear(&Record::estimates, rank, result);
  }
  return result;
}

std::optional<Rank> Survivors::objector() {
  const std::uint64_t next = number_ + 1;
  for (const Rank rank : peers_.others()) {
    if (is_gone(rank)) return rank;
    const Record::Opinion& vote = peers_.control(rank).survivors.votes[next % 2];
    const bool has_come = vote.number.load(std::memory_order_acquire) == next;
    if (has_come && (vote.agrees == 0 || vote.calls != bit_of(call_))) return rank;
  }
  return std::nullopt;
}

std::span<const std::byte> Survivors::announcement_of(Rank rank) const {
  const Control& control =
      rank == peers_.self() ? peers_.own_control() : std::as_const(peers_).control(rank);
  return control.survivors.announcement;
}

/// Goes ahead of the vote. So it has arrived wherever the vote has, and may be written anew after
/// that.
void Survivors::announce(std::span<const std::byte> own, const Gone& left_out) {
  if (own.empty()) return;
  const Progress::Lock lock{progress_};
  auto& announcement = peers_.own_control().survivors.announcement;
  std::ranges::copy(own, announcement);
  for (const Rank peer : peers_.posted())
    if (!left_out.contains(peer)) peers_.show(peer, announcement);
}

/// The number goes last: by it peers know that the rest is there.
void Survivors::publish(Kind kind, const Opinion& opinion, const Gone& left_out) {
  if (opinion.gone.size() > Record::most_gone)
    throw LimitReached(fmt::format(
        "rank {}: {} ranks are gone, and those that are left can agree on {}: start the job again",
        peers_.self().value(), opinion.gone.size(), Record::most_gone));
  const Progress::Lock lock{progress_};
  Record& record = peers_.own_control().survivors;
  Record::Opinion& own = (record.*kind)[number_ % 2];
  own.agrees = opinion.agrees ? 1 : 0;
  own.calls = static_cast<std::uint16_t>(opinion.calls);
  own.gone_count = 0;
  for (const auto& [rank, certain] : opinion.gone)
    own.gone[own.gone_count++] =
        static_cast<Record::Gone>(rank.value()) | (certain ? 0 : Record::unreachable);
  own.number.store(number_, std::memory_order_release);
  for (const Rank peer : peers_.posted()) {
    if (left_out.contains(peer)) continue;
    peers_.show(peer, &own.agrees, sizeof own - offsetof(Record::Opinion, agrees));
    peers_.show(peer, own.number);
  }
  peers_.wake_all();
}

template <class Ending>
void Survivors::end(const Ending& error) {
  progress_.tell(Wait{});
  ended_ = std::make_exception_ptr(error);
  throw error;
}

void Survivors::tell_wait_for(Rank rank, std::chrono::milliseconds waited) {
  const bool is_world = names_.of_group().empty();
  progress_.tell(Wait{.kind = Wait::Kind::survivors,
                      .peers = {Rank{world_ranks_[rank]}},
                      .peer_count = 1,
                      .waited = waited,
                      .number = bit_of(call_),
                      .group_size = is_world ? 0 : static_cast<std::uint32_t>(peers_.count())});
}

/// Says what that rank does instead, as far as it has told.
void Survivors::give_up_on(Rank rank) {
  const Rank late{world_ranks_[rank]};
  const WaitBoard& waits = progress_.waits();
  const bool stopped = is_stopped(waits.processes()[late]);
  Wait wait;
  {
    const Progress::Lock lock{progress_};
    progress_.waits().look(WaitBoard::Clock::now());
    wait = waits.seen(late).wait;
    progress_.waits().give_up({late}, false);
  }
  std::string instead;
  if (wait.kind != Wait::Kind::none && !wait.gave_up)
    instead = fmt::format("; it waits in {}", to_string(wait));
  if (stopped) instead = "; it is stopped (by SIGSTOP or a debugger)";
  end(TimedOut(
      fmt::format("rank {} waited {} s for {} to call {}, as all ranks that are left have to{}: "
                  "end that process if it hangs, and start the job again",
                  peers_.self().value(), std::chrono::duration<double>(patience_).count(),
                  names_.full(late), name_of(call_), instead),
      {names_.culprit(late, stopped ? Culprit::State::stopped : Culprit::State::absent)}));
}

bool Survivors::hear(Kind kind, Rank rank, Opinion& opinion) {
  using Clock = WaitBoard::Clock;
  const Deadline deadline = Deadline::in(patience_);
  const Clock::time_point began = Clock::now();
  Clock::time_point told = began;
  const Record::Opinion& theirs = (peers_.control(rank).survivors.*kind)[number_ % 2];
  const auto has_come = [&] { return theirs.number.load(std::memory_order_acquire) == number_; };
  for (int look = 0; !has_come(); ++look) {
    if (is_gone(rank) && !has_come()) {
      if (told != began) progress_.tell(Wait{});
      return false;
    }
    if (deadline.expired()) give_up_on(rank);
    if (stopped_)
      end(Aborted(fmt::format("rank {}: {} was aborted", peers_.self().value(), name_of(call_))));
    if (const auto now = Clock::now(); now - told > progress_.waits().beat_interval()) {
      tell_wait_for(rank, std::chrono::duration_cast<std::chrono::milliseconds>(now - began));
      told = now;
    }
    look < 1000 ? std::this_thread::yield() : std::this_thread::sleep_for(between_looks);
  }
  if (told != began) progress_.tell(Wait{});
  opinion = read(theirs, rank);
  return true;
}

/// Pushes of before its end arrive first.
bool Survivors::is_gone(Rank rank) {
  const Progress::Lock lock{progress_};
  peers_.transport().watch(rank);
  const bool gone = watchdog_.departed(rank).has_value();
  peers_.transport().progress();
  return gone;
}

void Survivors::note_gone(Opinion& opinion, Rank rank) {
  opinion.agrees = false;
  opinion.gone[rank] |= peers_.mapped(rank) || peers_.left(rank);
}

Survivors::Opinion Survivors::read(const Record::Opinion& record, Rank rank) const {
  const Foreign theirs{peers_.self(), rank};
  Opinion opinion{.agrees = record.agrees != 0, .gone = {}, .calls = record.calls};
  const auto count =
      theirs.at_most("the number of ranks that are gone", record.gone_count, Record::most_gone);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto lost = theirs.at_most("a rank that is gone", record.gone[i] & ~Record::unreachable,
                                     static_cast<std::uint64_t>(peers_.count()) - 1);
    opinion.gone[Rank{static_cast<std::int32_t>(lost)}] |=
        (record.gone[i] & Record::unreachable) == 0;
  }
  return opinion;
}

}  // namespace capstan
