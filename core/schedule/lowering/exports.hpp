// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/schedule/lowering/program.hpp"
#include "core/schedule/lowering/protocol.hpp"

namespace capstan {

/// Whether a write to one span may change the other. Input and output count as overlapping
/// whatever their offsets, since a call in place gives both the same memory.
bool overlap(const Span& a, const Span& b);

/// The area of a rank's staging buffer that holds what one put sends.
struct Export {
  std::uint8_t region;
  Elements staging;
  /// False if the bytes are there already: in a buffer, or written by an earlier put.
  bool fresh;
  /// Where receivers read. For a buffer, `staging` is the offset in the buffer.
  Place place = Place::staging;
  /// The sender writes the receiver's output, and no area is read.
  bool delivered = false;

  Operand operand(Rank owner) const { return {place, owner, region, staging}; }
  /// Whether the receiver reads one of the sender's buffers.
  bool read_in_place() const { return !delivered && place != Place::staging; }
};

/// A put or a signal to a peer.
struct Outgoing {
  Rank peer;
  std::uint32_t step;
  std::uint32_t put;  ///< its number among the puts, or the next one's
};

struct Exports {
  std::vector<Export> puts;        ///< one per put step, in order
  std::vector<Outgoing> outgoing;  ///< by peers, those to one peer in order
  std::array<Elements, staging_regions> staging{};
};

/// Assigns areas of the staging buffer to the puts of a schedule. This is a pure function of the
/// schedule, so that readers and the owner agree without communicating. Puts of the same bytes
/// share an area, except with `inline_packets`: on some machines a cache line that several readers
/// poll costs more than a line for each reader.
Exports exports_of(const Schedule& schedule, Protocol protocol);

/// The extent of the larger region of the staging buffer that a rank with this schedule needs.
Elements staging_extent(const Schedule& schedule, Protocol protocol);

}  // namespace capstan
