// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/selection/simulated_memory.hpp"

#include <algorithm>
#include <cstddef>

namespace capstan {
namespace {

bool copies_to_itself(const Program& program, const Op& op) {
  return op.source_count == 1 && program.sources(op).front().place == Place::input &&
         program.destinations(op).front().place == Place::output;
}

bool is_local(const Operand& operand) {
  return operand.place < Place::staging;
}

}  // namespace

void SimulatedMemory::gather(Clock& clock, const Program& program, const Op& op) {
  if (in_place_ && copies_to_itself(program, op)) return;
  const double bytes = static_cast<double>(bytes_of(op.length, element_).value());
  const auto sources = program.sources(op), destinations = program.destinations(op);
  // Reading costs nothing where a peer's output is written: with several such peers, one after
  // the other, the source is in the cache.
  const bool sends = destinations.front().place == Place::peer_output;
  double stagings = 0;
  for (const Operand& source : sources) {
    if (source.place == Place::staging)
      stagings++ == 0 ? read_staging(clock, source, bytes)
                      : clock.bandwidth(bytes * model_.next_staging_byte);
    else if (is_local(source) && !sends)
      clock.bandwidth(bytes * (op.source_count > 1 ? local_byte_ : dram_byte()));
  }
  // Each rank begins with another peer, as in the executor.
  for (std::size_t k = 1; k <= sources.size(); ++k) {
    const auto i = (static_cast<std::size_t>(program.self.value()) + k) % sources.size();
    if (is_buffer_of_peer(sources[i].place)) read_peer(clock, sources[i], op, bytes);
  }
  if (op.source_count > 1) clock.reduction(bytes * op.source_count * model_.reduce_byte);
  for (const Operand& destination : destinations)
    write(clock, destination, bytes, cost_of_writing(op, sources.front()));
}

/// The cost of writing a byte to the own buffers. Copies out of staging buffers and peers' memory
/// include the cost of writing to the cache, and those of peers' memory also that of DRAM.
double SimulatedMemory::cost_of_writing(const Op& op, const Operand& source) const {
  if (op.source_count > 1 || is_local(source)) return local_byte_;
  return source.place == Place::staging ? dram_byte() : 0;
}

/// The cost of a byte of the own buffers where they are in DRAM, beyond its cost where they are
/// in the cache.
double SimulatedMemory::dram_byte() const {
  return local_byte_ - model_.local_byte;
}

/// `own_byte`: what a byte costs that is written to a buffer of this rank.
void SimulatedMemory::write(Clock& clock, const Operand& destination, double bytes,
                            double own_byte) {
  if (destination.place == Place::peer_output) return write_peer(clock, destination, bytes);
  if (destination.place == Place::staging)
    clock.bandwidth(bytes * model_.staging_write_byte + first_bytes(bytes));
  else
    clock.bandwidth(bytes * own_byte);
}

void SimulatedMemory::write_peer(Clock& clock, const Operand& destination, double bytes) {
  const bool seen = seen_ == PeerMappedBuffers::all;
  const double far = !in_dram_ ? 1
                     : seen    ? model_.dram_load_factor
                               : model_.dram_write_factor * pages_;
  const Transfer write{seen ? model_.load : model_.write_call, bytes * model_.write_byte * far};
  if (!seen) await_other_copies(clock, destination.owner, write);
  clock.latency(write.fixed);
  clock.bandwidth(write.moving);
}

/// The extra cost of the first 4 KiB. Beyond them the hardware prefetches.
double SimulatedMemory::first_bytes(double bytes) const {
  return std::min(bytes, 4096.0) * model_.first_staging_byte;
}

void SimulatedMemory::read_staging(Clock& clock, const Operand& source, double bytes) {
  const double moving = bytes * model_.staging_read_byte + first_bytes(bytes);
  read(clock, {Place::staging, source.owner}, {model_.miss, moving}, model_.contention);
}

void SimulatedMemory::read_peer(Clock& clock, const Operand& source, const Op& op, double bytes) {
  const auto piece = static_cast<double>(fetched_piece(op.source_count + 1).value());
  const bool fresh = source.place == Place::peer_output;
  const bool seen = seen_ >= (fresh ? PeerMappedBuffers::all : PeerMappedBuffers::inputs);
  const double call = seen                  ? model_.load
                      : op.source_count > 1 ? std::max(1.0, bytes / piece) * model_.read_piece
                                            : model_.read_call;
  const double near = !fresh ? model_.read_byte
                      : seen ? model_.staging_read_byte
                             : model_.read_fresh_byte;
  const double far = seen    ? model_.read_byte * model_.dram_load_factor
                     : fresh ? model_.read_fresh_byte * pages_
                             : model_.read_byte * model_.dram_read_factor * pages_;
  const double again = !seen && op.source_count > 1 ? model_.read_piece_byte : 0;
  const Transfer cost{call, bytes * ((in_dram_ ? far : near) + again)};
  if (!seen) await_other_copies(clock, source.owner, cost);
  read(clock, {Place::peer_input, source.owner}, cost,
       huge_ ? model_.huge_contention : model_.buffer_contention);
}

/// Ranks that read the same memory at the same time contend for it.
void SimulatedMemory::read(Clock& clock, std::pair<Place, Rank> memory, const Transfer& cost,
                           double contention) {
  const double now = clock.now();
  auto& others = reads_[memory];
  const double overlapping = overlaps(others, now, now + cost.alone());
  clock.latency(cost.fixed);
  clock.bandwidth(cost.moving);
  clock.waiting(cost.alone() * contention * overlapping);
  others.push_back({now, clock.now()});
}

/// Copies that the kernel of one host makes at the same time contend, whatever they read.
void SimulatedMemory::await_other_copies(Clock& clock, Rank peer, const Transfer& cost) {
  const double now = clock.now(), end = now + cost.alone();
  auto& others = copies_[hosts_.host_of(peer)];
  clock.waiting(cost.moving * model_.copy_contention * overlaps(others, now, end));
  others.push_back({now, end});
}

double SimulatedMemory::overlaps(const std::vector<Interval>& others, double begin, double end) {
  return static_cast<double>(std::ranges::count_if(
      others, [&](const Interval& other) { return other.begin < end && begin < other.end; }));
}

}  // namespace capstan
