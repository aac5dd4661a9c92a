// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/proof/machine.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace capstan::proof {
namespace {

constexpr std::size_t most_findings = 20, most_races = 5;

void merge(ByRank<int>& into, const ByRank<int>& from) {
  for (const Rank rank : all_ranks(into.size())) into[rank] = std::max(into[rank], from[rank]);
}

}  // namespace

Machine::Machine(ByRank<std::vector<Effect>> scripts, const Layout& layout, Budget& budget)
    : scripts_(std::move(scripts)),
      layout_(layout),
      budget_(budget),
      next_(scripts_.size()),
      clocks_(scripts_.size(), Clock(scripts_.size())),
      entered_(scripts_.size()),
      left_(scripts_.size()),
      blocks_(scripts_.size()),
      finished_(scripts_.size()),
      woken_(scripts_.size(), ByRank<int>(scripts_.size())) {}

void Machine::run() {
  bool moved = true;
  while (moved && !has_many_findings()) {
    moved = false;
    for (const Rank rank : ranks())
      while (step(rank)) moved = true;
  }
  if (has_many_findings()) return report_further_races();
  report_deadlock();
  if (std::ranges::all_of(ranks(), [&](Rank rank) { return has_ended(rank); })) report_unheard();
  report_further_races();
}

/// The counts of signals are known at the end only, so races do not end the run.
bool Machine::has_many_findings() const {
  return findings_.size() >= most_findings;
}

void Machine::report(Flaw flaw, Rank rank, int step, std::string message) {
  if (!reported_.emplace(flaw, rank, step).second || has_many_findings()) return;
  if (flaw == Flaw::race && ++races_ > most_races) return;
  findings_.push_back({flaw, rank, step, std::string{name_of(flaw)} + ": " + message});
}

void Machine::report_further_races() {
  if (races_ > most_races)
    findings_.push_back({Flaw::race, Rank{}, -1,
                         "race: " + std::to_string(races_ - most_races) + " more at other steps"});
}

Machine::Clock& Machine::tick(Rank rank) {
  ++clocks_[rank][rank];
  return clocks_[rank];
}

/// Runs one effect; false when the rank is at its end or has to wait.
bool Machine::step(Rank rank) {
  if (has_ended(rank) || has_many_findings()) return false;
  const Effect& effect = scripts_[rank][next_[rank]];
  switch (effect.kind) {
    case Effect::Kind::wait:
      if (!wait(rank, effect)) return false;
      break;
    case Effect::Kind::transfer:
      if (!packets_ready(rank, effect)) return false;
      transfer(rank, effect);
      break;
    case Effect::Kind::put:
      put(rank, effect);
      break;
    case Effect::Kind::flush:
      flush(rank, effect);
      break;
    case Effect::Kind::signal: {
      const auto pair = std::pair{rank, effect.peer};
      signals_[pair].push_back({tick(rank), std::exchange(unannounced_[pair], {})});
      wake(rank, effect.peer);
      break;
    }
    case Effect::Kind::enter:
      enter(rank, effect);
      break;
    case Effect::Kind::leave:
      leave(rank, effect);
      break;
    case Effect::Kind::finish:
      finish(rank, effect);
      break;
    case Effect::Kind::tell:
      tell(rank, effect);
      break;
    case Effect::Kind::notify:
      tick(rank);
      wake(rank, effect.peer);
      break;
    case Effect::Kind::acquire:
      if (!acquire(rank, effect)) return false;
      break;
  }
  ++next_[rank];
  pay_for(rank, effect);
  return true;
}

/// An effect costs a little, its clocks a word for each rank, and each element that it moves; a sum
/// a word for each rank that may be in it. Entering and leaving look at the whole buffers.
void Machine::pay_for(Rank rank, const Effect& effect) {
  constexpr std::uint64_t effect_cost = 300, word_cost = 2, element_cost = 120, term_cost = 8;
  const auto ranks = static_cast<std::uint64_t>(scripts_.size());
  std::uint64_t moved =
      effect.length.value() * (effect.destinations.size() + effect.sources.size());
  if (effect.kind == Effect::Kind::enter)
    for (const auto kind : {Memory::Kind::input, Memory::Kind::output})
      moved += 2 * layout_.extent({.kind = kind, .owner = rank, .instance = effect.block}).value();
  const std::uint64_t terms = effect.sources.size() > 1 ? ranks : 0;
  budget_.spend(effect_cost + word_cost * ranks + (element_cost + term_cost * terms) * moved);
}

void Machine::enter(Rank rank, const Effect& effect) {
  const Clock& now = tick(rank);
  entered_[rank].try_emplace(effect.call, now[rank]);
  blocks_[rank][effect.call].push_back(effect.block);
  const Piece input{{.owner = rank, .instance = effect.block}};
  const Elements length = layout_.extent(input.memory);
  Cell* given = cells(input, length);
  for (Elements i; i < length; i += Elements{1}, ++given) {
    given->value = values_.contribution({effect.block, rank, i});
    given->written = {.rank = rank, .time = now[rank]};
  }
}

void Machine::leave(Rank rank, const Effect& effect) {
  const Clock& now = tick(rank);
  left_[rank][effect.call] = now[rank];
  check_buffers_are_free(rank, effect.call, now);
  for (const Rank peer : ranks()) {
    const auto entry = entered_[peer].find(effect.call);
    if (entry != entered_[peer].end() && now[peer] >= entry->second) continue;
    synchronizes_ = false;
    if (!effect.synchronizes) return;
    report(Flaw::unsynchronized, rank, -1,
           rank_name(rank) + " may return from call " + std::to_string(effect.call) + " before " +
               rank_name(peer) + " has entered it");
  }
}

void Machine::wake(Rank rank, Rank peer) {
  woken_[rank][peer] = clocks_[rank][rank];
}

/// Finishes a block, and wakes the peers that share memory with `rank`.
void Machine::finish(Rank rank, const Effect& effect) {
  finished_[rank][effect.block] = tick(rank);
  for (const Rank peer : ranks())
    if (layout_.shares_memory(rank, peer)) wake(rank, peer);
}

void Machine::tell(Rank rank, const Effect& effect) {
  const Finishes& finished = finished_[rank];
  const Clock& now = tick(rank);
  if (!finished.empty()) told_[{rank, effect.peer}].try_emplace(finished.rbegin()->first, now);
  wake(rank, effect.peer);
}

std::vector<Rank> Machine::readers_of(const Effect& acquire) const {
  std::vector<Rank> peers = acquire.peers;
  if (peers.empty()) std::ranges::copy(ranks(), std::back_inserter(peers));
  return peers;
}

/// The clock at which the peer first made known to `rank` that it has finished the block; null if
/// it has not. A notice of a later block covers all blocks before.
const Machine::Clock* Machine::known_finish(Rank rank, Rank peer, int block) const {
  const Finishes* known = &finished_[peer];
  if (!layout_.shares_memory(peer, rank)) {
    const auto told = told_.find({peer, rank});
    if (told == told_.end()) return nullptr;
    known = &told->second;
  }
  const Clock* first = nullptr;
  for (auto entry = known->lower_bound(block); entry != known->end(); ++entry)
    if (!first || entry->second[peer] < (*first)[peer]) first = &entry->second;
  return first;
}

bool Machine::acquire(Rank rank, const Effect& effect) {
  const std::vector<Rank> peers = readers_of(effect);
  const auto is_known = [&](Rank peer) {
    return known_finish(rank, peer, effect.block) != nullptr;
  };
  if (!std::ranges::all_of(peers, is_known)) return false;
  Clock& now = tick(rank);
  for (const Rank peer : peers) merge(now, *known_finish(rank, peer, effect.block));
  return true;
}

bool Machine::wait(Rank rank, const Effect& effect) {
  const Rank peer = effect.peer;
  const auto pair = std::pair{peer, rank};
  auto& sent = signals_[pair];
  std::size_t& taken = taken_[pair];
  if (taken == sent.size()) return false;
  const Signal& signal = sent[taken++];
  Clock& now = tick(rank);
  for (const Put& put : signal.puts) land(put, peer, rank, now[rank]);
  merge(now, signal.clock);
  return true;
}

const Machine::Clock* Machine::publication(const Effect& effect, const Piece& source) const {
  const auto found = published_.find({source.memory, source.offset, effect.block});
  return found == published_.end() ? nullptr : &found->second;
}

/// Whether the owner of `source` has woken `rank` since it published the packets.
bool Machine::is_awake_for(Rank rank, const Piece& source, const Clock& published) {
  const Rank owner = source.memory.owner;
  return owner == rank || woken_[owner][rank] >= published[owner];
}

bool Machine::packets_ready(Rank rank, const Effect& effect) {
  return std::ranges::all_of(effect.sources, [&](const Piece& source) {
    if (source.memory.kind != Memory::Kind::packets) return true;
    const Clock* const published = publication(effect, source);
    return published && is_awake_for(rank, source, *published);
  });
}

void Machine::transfer(Rank rank, const Effect& effect) {
  Clock& now = tick(rank);
  for (const Piece& source : effect.sources)
    if (source.memory.kind == Memory::Kind::packets)
      merge(now, published_[{source.memory, source.offset, effect.block}]);
  if (copies_to_itself(effect)) return;  // in place: nothing is touched
  check_overlap(rank, effect);
  const auto result = read(rank, effect);
  const Access access{.rank = rank, .time = now[rank], .step = effect.step};
  for (const Piece& destination : effect.destinations) {
    check_owner_has_entered(rank, effect, destination.memory);
    check_owner_is_in(rank, effect, destination.memory);
    write(effect, destination, result, now, access);
    if (destination.memory.kind == Memory::Kind::packets)
      published_[{destination.memory, destination.offset, effect.block}] = now;
  }
}

bool Machine::copies_to_itself(const Effect& effect) const {
  if (effect.completes || effect.sources.size() != 1 || effect.destinations.size() != 1)
    return false;
  const Piece from = layout_.home(effect.sources.front()),
              to = layout_.home(effect.destinations.front());
  return from.memory == to.memory && from.offset == to.offset;
}

void Machine::put(Rank rank, const Effect& effect) {
  const Clock& now = tick(rank);
  const Put put{&effect, now, read(rank, effect)};
  unannounced_[{rank, effect.peer}].push_back(put);
  unflushed_[{rank, effect.peer}].push_back(put);
}

/// Puts may be in flight until here: their sources must not have changed.
void Machine::flush(Rank rank, const Effect& effect) {
  tick(rank);
  for (const Put& put : std::exchange(unflushed_[{rank, effect.peer}], {}))
    if (read(rank, *put.effect, true) != put.values)
      report(Flaw::race, rank, put.effect->step,
             std::string{put.effect->text} + " of " + rank_name(rank) +
                 " may send what is written later");
}

/// The put's data arrive at the latest possible moment: when a wait takes the signal after the put.
void Machine::land(const Put& put, Rank issuer, Rank taken_by, int time) {
  const Effect& effect = *put.effect;
  const Memory& memory = effect.destinations.front().memory;
  if (memory.kind == Memory::Kind::input || memory.kind == Memory::Kind::output) {
    const auto entry = entered_[taken_by].find(effect.call);
    const std::string what = std::string{effect.text} + " of " + rank_name(issuer);
    if (entry == entered_[taken_by].end() || put.issued[taken_by] < entry->second)
      report(Flaw::race, issuer, effect.step,
             what + " may land before " + rank_name(taken_by) + " has entered the call");
    else if (left_[taken_by].contains(effect.call))
      report(Flaw::race, issuer, effect.step,
             what + " may land after " + rank_name(taken_by) + " has returned from the call");
  }
  const Access access{.rank = taken_by,
                      .time = time,
                      .issuer = issuer,
                      .issuer_call = effect.call,
                      .step = effect.step};
  write(effect, effect.destinations.front(), put.values, put.issued, access);
}

void Machine::report_deadlock() {
  for (const Rank rank : ranks()) {
    if (has_ended(rank)) continue;
    const Effect& effect = scripts_[rank][next_[rank]];
    const std::string place =
        effect.kind == Effect::Kind::acquire
            ? "to use the slot of block " + std::to_string(effect.block) + " again"
            : "at step " + std::to_string(effect.step) + " (" + std::string{effect.text} + ")";
    report(Flaw::deadlock, rank, effect.step,
           rank_name(rank) + " waits for ever " + place + ", call " + std::to_string(effect.call) +
               reason_to_wait(rank, effect));
  }
}

std::string Machine::reason_to_wait(Rank rank, const Effect& effect) {
  if (effect.kind == Effect::Kind::acquire) return reason_to_acquire(rank, effect);
  if (effect.kind == Effect::Kind::transfer) return reason_without_packets(rank, effect);
  const auto sent = signals_.find({effect.peer, rank});
  return ": it has had all " + std::to_string(sent == signals_.end() ? 0 : sent->second.size()) +
         " signals that the peer has sent so far";
}

std::string Machine::reason_to_acquire(Rank rank, const Effect& effect) const {
  const std::string block = " block " + std::to_string(effect.block);
  for (const Rank peer : readers_of(effect)) {
    if (known_finish(rank, peer, effect.block)) continue;
    const Finishes& finished = finished_[peer];
    if (finished.lower_bound(effect.block) == finished.end())
      return ": " + rank_name(peer) + " never finishes" + block;
    return ": " + rank_name(peer) + ", on another host, has finished" + block +
           " and withholds the notice of it";
  }
  return "";
}

std::string Machine::reason_without_packets(Rank rank, const Effect& effect) {
  for (const Piece& source : effect.sources) {
    if (source.memory.kind != Memory::Kind::packets) continue;
    const std::string owner = rank_name(source.memory.owner);
    const Clock* const published = publication(effect, source);
    if (!published) return ": " + owner + " never writes its packets";
    if (!is_awake_for(rank, source, *published))
      return ": " + owner + " has written its packets and never wakes " + rank_name(rank);
  }
  return "";
}

void Machine::report_unheard() {
  const auto others = std::exchange(findings_, {});
  for (const auto& [pair, sent] : signals_)
    if (taken_[pair] < sent.size())
      report(Flaw::imbalance, pair.second, -1,
             rank_name(pair.first) + " signals " + rank_name(pair.second) + " " +
                 std::to_string(sent.size()) + " times in all calls, which waits for it " +
                 std::to_string(taken_[pair]) + " times");
  for (const auto& [pair, puts] : unannounced_)
    if (!puts.empty())
      report(Flaw::imbalance, pair.first, puts.front().effect->step,
             std::string{puts.front().effect->text} + " of " + rank_name(pair.first) +
                 " is followed by no signal");
  findings_.insert(findings_.end(), others.begin(), others.end());
}

}  // namespace capstan::proof
