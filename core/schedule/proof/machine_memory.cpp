// SPDX-License-Identifier: Apache-2.0

// Reads and writes of memories by the machine, with their checks.

#include <algorithm>
#include <string>

#include "core/schedule/proof/machine.hpp"

namespace capstan::proof {

/// Other ranks may use a caller's buffers only while the caller is in the call.
void Machine::check_owner_is_in(Rank rank, const Effect& effect, const Memory& memory) {
  const bool of_caller = memory.kind == Memory::Kind::input || memory.kind == Memory::Kind::output;
  const Rank owner = memory.owner;
  if (of_caller && owner != rank && left_[owner].contains(effect.call))
    report(Flaw::race, rank, effect.step,
           std::string{effect.text} + " of " + rank_name(rank) + " may use " + to_string(memory) +
               " after " + rank_name(owner) + " has returned from the call");
}

/// A peer's output may be written only after the peer has entered the call: before, the memory
/// belongs to an earlier call.
void Machine::check_owner_has_entered(Rank rank, const Effect& effect, const Memory& memory) {
  const Rank owner = memory.owner;
  if (memory.kind != Memory::Kind::output || memory.owner == rank) return;
  const auto entry = entered_[owner].find(effect.call);
  if (entry == entered_[owner].end() || clocks_[rank][owner] < entry->second)
    report(Flaw::race, rank, effect.step,
           std::string{effect.text} + " of " + rank_name(rank) + " may write before " +
               rank_name(memory.owner) + " has entered the call");
}

/// From here on the caller may change its buffers: all accesses of peers must have happened before.
void Machine::check_buffers_are_free(Rank rank, int call, const Clock& now) {
  for (const int block : blocks_[rank][call])
    for (const auto kind : {Memory::Kind::input, Memory::Kind::output}) {
      const Piece buffer{{.kind = kind, .owner = rank, .instance = block}};
      const Elements length = layout_.extent(buffer.memory);
      const Cell* cell = cells(buffer, length);
      for (Elements i; i < length; i += Elements{1}, ++cell) {
        const auto require_before = [&](const Access& access, const char* what) {
          if (!before(access, now))
            report(Flaw::race, access.rank, access.step,
                   "step " + std::to_string(access.step) + " of " + rank_name(access.rank) + what +
                       number_of(buffer.memory, i) + " of " + to_string(buffer.memory) + " after " +
                       rank_name(rank) + " has returned from the call");
        };
        for (const Access& reader : cell->read) require_before(reader, " may read element ");
        require_before(cell->written, " may write element ");
      }
    }
}

/// A kernel may write an element that it reads, but not one that it has yet to read.
void Machine::check_overlap(Rank rank, const Effect& effect) {
  for (const Piece& to : effect.destinations)
    for (const Piece& from : effect.sources) {
      const Piece a = layout_.home(to), b = layout_.home(from);
      const bool overlap = a.memory == b.memory && a.offset < b.offset + effect.length &&
                           b.offset < a.offset + effect.length;
      if (overlap && a.offset != b.offset)
        report(Flaw::race, rank, effect.step,
               std::string{effect.text} + " of " + rank_name(rank) +
                   " overwrites what it has yet to read");
    }
}

/// `again`: to see whether what a put sends has changed since it was issued.
std::vector<ValueId> Machine::read(Rank rank, const Effect& effect, bool again) {
  const Clock& known = clocks_[rank];
  std::vector<ValueId> result(effect.length.value(), Values::nothing);
  for (std::size_t s = 0; s < effect.sources.size(); ++s) {
    const Piece& source = effect.sources[s];
    if (!in_range(rank, effect, source)) return result;
    check_owner_is_in(rank, effect, source.memory);
    check_other_forms(rank, effect, source, known, false);
    Cell* const memory = cells(source, effect.length);
    for (std::size_t i = 0; i < result.size(); ++i) {
      Cell& cell = memory[i];
      if (cell.value == Values::nothing)
        report(Flaw::uninitialized, rank, effect.step,
               std::string{effect.text} + " of " + rank_name(rank) + " reads element " +
                   number_of(source.memory, source.offset + Elements{i}) + " of " +
                   to_string(source.memory) + ", which nobody has written");
      if (!before(cell.written, known))
        race(effect, cell.written, rank, {source.memory, source.offset + Elements{i}},
             "reads what is being written by");
      if (source.memory.kind == Memory::Kind::input && !again)
        check_is_input(rank, effect, source, i, cell);
      cell.read.push_back({.rank = rank, .time = known[rank], .step = effect.step});
      result[i] = s == 0 ? cell.value : combine(rank, effect, result[i], cell.value);
    }
  }
  if (effect.completes)
    for (ValueId& value : result) value = complete(rank, effect, value);
  if (effect.sources.size() > 1)
    for (ValueId& value : result) value = values_.summed(value);
  return result;
}

/// In place an output may have overwritten the input. Ranks choose for themselves whether they are
/// in place, so what is read as input has to be input.
void Machine::check_is_input(Rank rank, const Effect& effect, const Piece& source, std::size_t i,
                             const Cell& cell) {
  const auto& [memory, offset] = source;
  const Elements index = offset + Elements{i};
  const Contribution given{static_cast<int>(memory.instance), memory.owner, index};
  if (cell.value == Values::nothing || cell.value == values_.contribution(given)) return;
  report(Flaw::input_written, rank, effect.step,
         std::string{effect.text} + " of " + rank_name(rank) + " reads element " +
             number_of(memory, index) + " of " + to_string(memory) +
             ", which an output has overwritten in place");
}

ValueId Machine::complete(Rank rank, const Effect& effect, ValueId value) {
  if (values_.is_complete(value))
    report(Flaw::reduced_twice, rank, effect.step,
           std::string{effect.text} + " of " + rank_name(rank) +
               " completes an element that was complete");
  return values_.completed(value);
}

ValueId Machine::combine(Rank rank, const Effect& effect, ValueId a, ValueId b) {
  if (values_.is_complete(a) || values_.is_complete(b))
    report(Flaw::reduced_twice, rank, effect.step,
           std::string{effect.text} + " of " + rank_name(rank) +
               " adds to an element that was complete");
  return values_.sum(a, b);
}

void Machine::write(const Effect& effect, const Piece& piece, const std::vector<ValueId>& values,
                    const Clock& known, const Access& access) {
  const Rank writer = access.issuer != nobody ? access.issuer : access.rank;
  if (!in_range(writer, effect, piece)) return;
  if (piece.memory.kind == Memory::Kind::input)
    report(Flaw::input_written, writer, effect.step,
           std::string{effect.text} + " of " + rank_name(writer) + " writes to an input");
  check_other_forms(writer, effect, piece, known, true);
  Cell* const memory = cells(piece, effect.length);
  for (std::size_t i = 0; i < values.size(); ++i) {
    Cell& cell = memory[i];
    const Piece element{piece.memory, piece.offset + Elements{i}};
    if (!before(cell.written, known))
      race(effect, cell.written, writer, element, "overwrites what is being written by");
    for (const Access& reader : cell.read)
      // The same effect may read what it overwrites.
      if (!before(reader, known) && !(reader.rank == writer && reader.time == access.time))
        race(effect, reader, writer, element, "overwrites what is being read by");
    cell = {values[i], access, {}};
  }
}

bool Machine::before(const Access& access, const Clock& known) const {
  if (access.rank == nobody) return true;  // never accessed
  if (known[access.rank] >= access.time) return true;
  if (access.issuer == nobody) return false;
  const auto end = left_[access.issuer].find(access.issuer_call);
  return end != left_[access.issuer].end() && known[access.issuer] >= end->second;
}

void Machine::race(const Effect& effect, const Access& other, Rank rank, const Piece& element,
                   const char* what) {
  const Rank who = other.issuer != nobody ? other.issuer : other.rank;
  report(Flaw::race, rank, effect.step,
         "step " + std::to_string(effect.step) + " of " + rank_name(rank) + " (" +
             std::string{effect.text} + ") " + what + " step " + std::to_string(other.step) +
             " of " + rank_name(who) + ": " + to_string(element.memory) + ", element " +
             number_of(element.memory, element.offset));
}

/// The number by which the program knows an element.
std::string Machine::number_of(const Memory& memory, Elements offset) const {
  return std::to_string(layout_.element_at({memory, offset}).value());
}

bool Machine::in_range(Rank rank, const Effect& effect, const Piece& piece) {
  const Elements extent = layout_.extent(piece.memory);
  if (piece.offset + effect.length <= extent) return true;
  report(Flaw::out_of_range, rank, effect.step,
         std::string{effect.text} + " of " + rank_name(rank) + " goes beyond the " +
             number_of(piece.memory, extent) + " elements of " + to_string(piece.memory));
  return false;
}

Machine::Cell* Machine::cells(const Piece& piece, Elements length) {
  const Piece home = layout_.home(piece);
  auto& cells = content_of(home.memory).cells;
  const std::size_t end = (home.offset + length).value();
  if (cells.size() < end) cells.resize(end);
  return cells.data() + home.offset.value();
}

Machine::Content& Machine::content_of(const Memory& memory) {
  Memory any_form = memory;
  any_form.form = 0;
  Content& content = memory_[any_form];
  if (content.form != memory.form) change_form(content, memory.form);
  return content;
}

/// Nothing is known of where a block of another form looks: its accesses meet all of those before.
void Machine::change_form(Content& content, int form) {
  const auto note = [](std::vector<Access>& all, const Access& access) {
    if (access.rank == nobody) return;
    const auto same = std::ranges::find_if(all, [&](const Access& other) {
      return other.rank == access.rank && other.issuer == access.issuer;
    });
    if (same == all.end())
      all.push_back(access);
    else if (same->time < access.time)
      *same = access;
  };
  for (const Cell& cell : content.cells) {
    note(content.written_before, cell.written);
    for (const Access& reader : cell.read) note(content.read_before, reader);
  }
  content.cells.clear();
  content.form = form;
}

void Machine::check_other_forms(Rank rank, const Effect& effect, const Piece& piece,
                                const Clock& known, bool writes) {
  const Content& content = content_of(layout_.home(piece).memory);
  for (const Access& writer : content.written_before)
    if (!before(writer, known))
      race(effect, writer, rank, piece,
           writes ? "overwrites what is being written by" : "reads what is being written by");
  if (!writes) return;
  for (const Access& reader : content.read_before)
    if (!before(reader, known))
      race(effect, reader, rank, piece, "overwrites what is being read by");
}

ValueId Machine::value_at(const Piece& piece) {
  return cells(piece, Elements{1})->value;
}

}  // namespace capstan::proof
