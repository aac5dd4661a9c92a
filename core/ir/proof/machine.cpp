#include "core/ir/proof/machine.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace capstan::proof {
namespace {

constexpr std::size_t most_findings = 20;

std::string number(std::uint64_t value) {
  return std::to_string(value);
}
std::string rank_name(int rank) {
  return "rank " + std::to_string(rank);
}

void merge(std::vector<int>& into, const std::vector<int>& from) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}

}  // namespace

std::string_view name_of(Flaw flaw) {
  constexpr std::string_view names[] = {"deadlock",
                                        "imbalance",
                                        "race",
                                        "out of range",
                                        "uninitialized read",
                                        "input written",
                                        "missing contribution",
                                        "double contribution",
                                        "misplaced contribution",
                                        "unfinished",
                                        "completed though no sum over all",
                                        "reduced after completion",
                                        "out of order",
                                        "unsynchronized",
                                        "different extents"};
  return names[static_cast<std::size_t>(flaw)];
}

std::string to_string(const Memory& memory) {
  constexpr std::string_view names[] = {"input", "output", "scratch", "board", "packets"};
  return rank_name(memory.owner.value()) + " " +
         std::string{names[static_cast<std::size_t>(memory.kind)]} +
         (memory.viewer < 0 ? "" : " as seen by " + rank_name(memory.viewer));
}

Machine::Machine(std::vector<std::vector<Effect>> scripts, const Layout& layout)
    : scripts_(std::move(scripts)),
      layout_(layout),
      next_(scripts_.size()),
      clocks_(scripts_.size(), Clock(scripts_.size())),
      entered_(scripts_.size()),
      left_(scripts_.size()),
      blocks_(scripts_.size()),
      finished_(scripts_.size()) {}

void Machine::run() {
  bool moved = true;
  while (moved && findings_.size() < most_findings) {
    moved = false;
    for (int rank = 0; rank < static_cast<int>(scripts_.size()); ++rank)
      while (step(rank)) moved = true;
  }
  report_deadlock();
  if (findings_.empty()) report_unheard();
}

void Machine::report(Flaw flaw, Rank rank, int step, std::string message) {
  const bool known = std::ranges::any_of(findings_, [&](const Finding& f) {
    return f.flaw == flaw && f.rank == rank && f.step == step;
  });
  if (!known && findings_.size() < most_findings)
    findings_.push_back({flaw, rank, step, std::string{name_of(flaw)} + ": " + message});
}

Machine::Clock& Machine::tick(int rank) {
  const auto r = static_cast<std::size_t>(rank);
  ++clocks_[r][r];
  return clocks_[r];
}

/// Runs one effect; false when the rank is at its end or has to wait.
bool Machine::step(int rank) {
  const auto r = static_cast<std::size_t>(rank);
  if (next_[r] == scripts_[r].size() || findings_.size() >= most_findings) return false;
  const Effect& effect = scripts_[r][next_[r]];
  switch (effect.kind) {
    case Effect::Kind::wait:
      if (!wait(rank, effect)) return false;
      break;
    case Effect::Kind::transfer:
      if (!packets_ready(effect)) return false;
      transfer(rank, effect);
      break;
    case Effect::Kind::put:
      put(rank, effect);
      break;
    case Effect::Kind::flush:
      flush(rank, effect);
      break;
    case Effect::Kind::signal: {
      const auto pair = std::pair{rank, effect.peer.value()};
      signals_[pair].push_back({tick(rank), std::exchange(unannounced_[pair], {})});
      break;
    }
    case Effect::Kind::enter:
      enter(rank, effect);
      break;
    case Effect::Kind::leave:
      leave(rank, effect);
      break;
    case Effect::Kind::finish:
      finished_[r][effect.block] = tick(rank);
      break;
    case Effect::Kind::acquire:
      if (!acquire(rank, effect)) return false;
      break;
  }
  ++next_[r];
  return true;
}

void Machine::enter(int rank, const Effect& effect) {
  const auto r = static_cast<std::size_t>(rank);
  const Clock& now = tick(rank);
  entered_[r].try_emplace(effect.call, now[r]);
  blocks_[r][effect.call].push_back(effect.block);
  const Piece input{{.owner = Rank{rank}, .instance = effect.block}};
  const Elements length = layout_.extent(input.memory);
  Cell* given = cells(input, length);
  for (Elements i; i < length; i += Elements{1}, ++given) {
    given->value = values_.contribution({effect.block, Rank{rank}, i});
    given->written = {.rank = rank, .time = now[r]};
  }
}

void Machine::leave(int rank, const Effect& effect) {
  const auto r = static_cast<std::size_t>(rank);
  const Clock& now = tick(rank);
  left_[r][effect.call] = now[r];
  check_buffers_are_free(rank, effect.call, now);
  if (!effect.synchronizes) return;
  for (std::size_t peer = 0; peer < scripts_.size(); ++peer) {
    const auto entry = entered_[peer].find(effect.call);
    if (entry == entered_[peer].end() || now[peer] < entry->second)
      report(Flaw::unsynchronized, Rank{rank}, -1,
             rank_name(rank) + " may return from call " + std::to_string(effect.call) + " before " +
                 rank_name(static_cast<int>(peer)) + " has entered it");
  }
}

/// What belongs to a caller may be used by others only while that is in the call.
void Machine::check_owner_is_in(int rank, const Effect& effect, const Memory& memory) {
  const bool of_caller = memory.kind == Memory::Kind::input || memory.kind == Memory::Kind::output;
  const int owner = memory.owner.value();
  if (of_caller && owner != rank && left_[static_cast<std::size_t>(owner)].contains(effect.call))
    report(Flaw::race, Rank{rank}, effect.step,
           effect.text + " of " + rank_name(rank) + " may use " + to_string(memory) + " after " +
               rank_name(owner) + " has returned from the call");
}

/// What is written there before belongs to an earlier call.
void Machine::check_owner_has_entered(int rank, const Effect& effect, const Memory& memory) {
  const auto owner = static_cast<std::size_t>(memory.owner.value());
  if (memory.kind != Memory::Kind::output || memory.owner == Rank{rank}) return;
  const auto entry = entered_[owner].find(effect.call);
  if (entry == entered_[owner].end() ||
      clocks_[static_cast<std::size_t>(rank)][owner] < entry->second)
    report(Flaw::race, Rank{rank}, effect.step,
           effect.text + " of " + rank_name(rank) + " may write before " +
               rank_name(memory.owner.value()) + " has entered the call");
}

/// From here on the caller may change what peers have read or written in its buffers.
void Machine::check_buffers_are_free(int rank, int call, const Clock& now) {
  for (const int block : blocks_[static_cast<std::size_t>(rank)][call])
    for (const auto kind : {Memory::Kind::input, Memory::Kind::output}) {
      const Piece buffer{{.kind = kind, .owner = Rank{rank}, .instance = block}};
      const Elements length = layout_.extent(buffer.memory);
      const Cell* cell = cells(buffer, length);
      for (Elements i; i < length; i += Elements{1}, ++cell) {
        const auto require_before = [&](const Access& access, const char* what) {
          if (!before(access, now))
            report(Flaw::race, Rank{access.rank}, access.step,
                   "step " + std::to_string(access.step) + " of " + rank_name(access.rank) + what +
                       number(i.value()) + " of " + to_string(buffer.memory) + " after " +
                       rank_name(rank) + " has returned from the call");
        };
        for (const Access& reader : cell->read) require_before(reader, " may read element ");
        require_before(cell->written, " may write element ");
      }
    }
}

bool Machine::acquire(int rank, const Effect& effect) {
  std::vector<int> peers = effect.peers;
  for (int peer = 0; effect.peers.empty() && peer < static_cast<int>(scripts_.size()); ++peer)
    peers.push_back(peer);
  // A rank tells only up to which block it has finished: a later block stands for all before it.
  const auto told = [&](int peer) -> const Clock* {
    const auto p = static_cast<std::size_t>(peer);
    const Clock* first = nullptr;
    for (auto entry = finished_[p].lower_bound(effect.block); entry != finished_[p].end(); ++entry)
      if (!first || entry->second[p] < (*first)[p]) first = &entry->second;
    return first;
  };
  if (!std::ranges::all_of(peers, told)) return false;
  Clock& now = tick(rank);
  for (const int peer : peers) merge(now, *told(peer));
  return true;
}

bool Machine::wait(int rank, const Effect& effect) {
  const int peer = effect.peer.value();
  const auto pair = std::pair{peer, rank};
  auto& sent = signals_[pair];
  std::size_t& taken = taken_[pair];
  if (taken == sent.size()) return false;
  const Signal& signal = sent[taken++];
  Clock& now = tick(rank);
  for (const Put& put : signal.puts) land(put, peer, rank, now[static_cast<std::size_t>(rank)]);
  merge(now, signal.clock);
  return true;
}

bool Machine::packets_ready(const Effect& effect) {
  return std::ranges::all_of(effect.sources, [&](const Piece& source) {
    return source.memory.kind != Memory::Kind::packets ||
           published_.contains({source.memory, source.offset, effect.block});
  });
}

void Machine::transfer(int rank, const Effect& effect) {
  Clock& now = tick(rank);
  for (const Piece& source : effect.sources)
    if (source.memory.kind == Memory::Kind::packets)
      merge(now, published_[{source.memory, source.offset, effect.block}]);
  if (copies_to_itself(effect)) return;  // in place: nothing is touched
  check_overlap(rank, effect);
  const auto result = read(rank, effect);
  const Access access{
      .rank = rank, .time = now[static_cast<std::size_t>(rank)], .step = effect.step};
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

/// A kernel may write an element that it reads, but not one that it has yet to read.
void Machine::check_overlap(int rank, const Effect& effect) {
  for (const Piece& to : effect.destinations)
    for (const Piece& from : effect.sources) {
      const Piece a = layout_.home(to), b = layout_.home(from);
      const bool overlap = a.memory == b.memory && a.offset < b.offset + effect.length &&
                           b.offset < a.offset + effect.length;
      if (overlap && a.offset != b.offset)
        report(Flaw::race, Rank{rank}, effect.step,
               effect.text + " of " + rank_name(rank) + " overwrites what it has yet to read");
    }
}

void Machine::put(int rank, const Effect& effect) {
  const Clock& now = tick(rank);
  const Put put{&effect, now, read(rank, effect)};
  unannounced_[{rank, effect.peer.value()}].push_back(put);
  unflushed_[{rank, effect.peer.value()}].push_back(put);
}

/// Where puts may be under way for a while, what they send must be the same until here.
void Machine::flush(int rank, const Effect& effect) {
  tick(rank);
  for (const Put& put : std::exchange(unflushed_[{rank, effect.peer.value()}], {}))
    if (read(rank, *put.effect) != put.values)
      report(Flaw::race, Rank{rank}, put.effect->step,
             put.effect->text + " of " + rank_name(rank) + " may send what is written later");
}

/// The put's data arrive, at the latest moment: when the signal after it is taken.
void Machine::land(const Put& put, int issuer, int taken_by, int time) {
  const Effect& effect = *put.effect;
  const auto peer = static_cast<std::size_t>(taken_by);
  const Memory& memory = effect.destinations.front().memory;
  if (memory.kind == Memory::Kind::input || memory.kind == Memory::Kind::output) {
    const auto entry = entered_[peer].find(effect.call);
    const std::string what = effect.text + " of " + rank_name(issuer);
    if (entry == entered_[peer].end() || put.issued[peer] < entry->second)
      report(Flaw::race, Rank{issuer}, effect.step,
             what + " may land before " + rank_name(taken_by) + " has entered the call");
    else if (left_[peer].contains(effect.call))
      report(Flaw::race, Rank{issuer}, effect.step,
             what + " may land after " + rank_name(taken_by) + " has returned from the call");
  }
  const Access access{.rank = taken_by,
                      .time = time,
                      .issuer = issuer,
                      .issuer_call = effect.call,
                      .step = effect.step};
  write(effect, effect.destinations.front(), put.values, put.issued, access);
}

std::vector<ValueId> Machine::read(int rank, const Effect& effect) {
  const auto r = static_cast<std::size_t>(rank);
  const Clock& known = clocks_[r];
  std::vector<ValueId> result(effect.length.value(), Values::nothing);
  for (std::size_t s = 0; s < effect.sources.size(); ++s) {
    const Piece& source = effect.sources[s];
    if (!in_range(rank, effect, source)) return result;
    check_owner_is_in(rank, effect, source.memory);
    Cell* const memory = cells(source, effect.length);
    for (std::size_t i = 0; i < result.size(); ++i) {
      Cell& cell = memory[i];
      if (cell.value == Values::nothing)
        report(Flaw::uninitialized, Rank{rank}, effect.step,
               effect.text + " of " + rank_name(rank) + " reads element " +
                   number(source.offset.value() + i) + " of " + to_string(source.memory) +
                   ", which nobody has written");
      if (!before(cell.written, known))
        race(effect, cell.written, rank, source.memory, source.offset.value() + i,
             "reads what is being written by");
      cell.read.push_back({.rank = rank, .time = known[r], .step = effect.step});
      result[i] = s == 0 ? cell.value : combine(rank, effect, result[i], cell.value);
    }
  }
  if (effect.completes)
    for (ValueId& value : result) value = complete(rank, effect, value);
  return result;
}

ValueId Machine::complete(int rank, const Effect& effect, ValueId value) {
  if (values_.is_complete(value))
    report(Flaw::reduced_twice, Rank{rank}, effect.step,
           effect.text + " of " + rank_name(rank) + " completes an element that was complete");
  return values_.completed(value);
}

ValueId Machine::combine(int rank, const Effect& effect, ValueId a, ValueId b) {
  if (values_.is_complete(a) || values_.is_complete(b))
    report(Flaw::reduced_twice, Rank{rank}, effect.step,
           effect.text + " of " + rank_name(rank) + " adds to an element that was complete");
  return values_.sum(a, b);
}

void Machine::write(const Effect& effect, const Piece& piece, const std::vector<ValueId>& values,
                    const Clock& known, const Access& access) {
  const int writer = access.issuer >= 0 ? access.issuer : access.rank;
  if (!in_range(writer, effect, piece)) return;
  if (piece.memory.kind == Memory::Kind::input)
    report(Flaw::input_written, Rank{writer}, effect.step,
           effect.text + " of " + rank_name(writer) + " writes to an input");
  Cell* const memory = cells(piece, effect.length);
  for (std::size_t i = 0; i < values.size(); ++i) {
    Cell& cell = memory[i];
    const std::size_t element = piece.offset.value() + i;
    if (!before(cell.written, known))
      race(effect, cell.written, writer, piece.memory, element,
           "overwrites what is being written by");
    for (const Access& reader : cell.read)
      // The same effect may read what it overwrites.
      if (!before(reader, known) && !(reader.rank == writer && reader.time == access.time))
        race(effect, reader, writer, piece.memory, element, "overwrites what is being read by");
    cell = {values[i], access, {}};
  }
}

bool Machine::before(const Access& access, const Clock& known) const {
  if (access.rank < 0) return true;  // never accessed
  if (known[static_cast<std::size_t>(access.rank)] >= access.time) return true;
  if (access.issuer < 0) return false;
  const auto issuer = static_cast<std::size_t>(access.issuer);
  const auto end = left_[issuer].find(access.issuer_call);
  return end != left_[issuer].end() && known[issuer] >= end->second;
}

void Machine::race(const Effect& effect, const Access& other, int rank, const Memory& memory,
                   std::size_t element, const char* what) {
  const int who = other.issuer >= 0 ? other.issuer : other.rank;
  report(Flaw::race, Rank{rank}, effect.step,
         "step " + std::to_string(effect.step) + " of " + rank_name(rank) + " (" + effect.text +
             ") " + what + " step " + std::to_string(other.step) + " of " + rank_name(who) + ": " +
             to_string(memory) + ", element " + number(element));
}

bool Machine::in_range(int rank, const Effect& effect, const Piece& piece) {
  const Elements extent = layout_.extent(piece.memory);
  if (piece.offset + effect.length <= extent) return true;
  report(Flaw::out_of_range, Rank{rank}, effect.step,
         effect.text + " of " + rank_name(rank) + " goes beyond the " + number(extent.value()) +
             " elements of " + to_string(piece.memory));
  return false;
}

Machine::Cell* Machine::cells(const Piece& piece, Elements length) {
  const Piece home = layout_.home(piece);
  auto& cells = memory_[home.memory];
  const std::size_t end = (home.offset + length).value();
  if (cells.size() < end) cells.resize(end);
  return cells.data() + home.offset.value();
}

ValueId Machine::value_at(const Piece& piece) {
  return cells(piece, Elements{1})->value;
}

void Machine::report_deadlock() {
  if (findings_.size() >= most_findings) return;
  for (int rank = 0; rank < static_cast<int>(scripts_.size()); ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (next_[r] == scripts_[r].size()) continue;
    const Effect& effect = scripts_[r][next_[r]];
    const auto pair = std::pair{effect.peer.value(), rank};
    report(Flaw::deadlock, Rank{rank}, effect.step,
           rank_name(rank) + " waits for ever at step " + std::to_string(effect.step) + " (" +
               effect.text + "), call " + std::to_string(effect.call) +
               (effect.kind == Effect::Kind::acquire
                    ? ": some rank never finishes block " + std::to_string(effect.block)
                : effect.kind == Effect::Kind::wait
                    ? ": it has had all " + number(signals_[pair].size()) +
                          " signals that the peer has sent so far"
                    : ""));
  }
}

void Machine::report_unheard() {
  for (const auto& [pair, sent] : signals_)
    if (taken_[pair] < sent.size())
      report(Flaw::imbalance, Rank{pair.second}, -1,
             rank_name(pair.first) + " signals " + rank_name(pair.second) + " " +
                 number(sent.size()) + " times, which waits for it " + number(taken_[pair]) +
                 " times");
  for (const auto& [pair, puts] : unannounced_)
    if (!puts.empty())
      report(
          Flaw::imbalance, Rank{pair.first}, puts.front().effect->step,
          puts.front().effect->text + " of " + rank_name(pair.first) + " is followed by no signal");
}

}  // namespace capstan::proof
