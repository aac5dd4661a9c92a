#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/lowering/program.hpp"
#include "core/lowering/protocol.hpp"

namespace capstan {

/// Whether writing one may change the other. In place, input and output share memory, and where
/// one begins in the other is not known here.
bool overlap(const Span& a, const Span& b);

/// The area of a rank's staging buffer that holds what one put sends.
struct Export {
  std::uint8_t region;
  Elements staging;
  bool fresh;  ///< false: the bytes are there already: in a buffer, or put by an earlier put
  Place place =
      Place::staging;  ///< or the buffer that is read itself; `staging buffer` is the place in it
  bool delivered = false;  ///< written to where the receiver wants it: nobody reads it anywhere

  Operand operand(Rank owner) const { return {place, owner, region, staging}; }
  /// Whether its receiver reads a buffer of the sender.
  bool read_in_place() const { return !delivered && place != Place::staging; }
};

struct Exports {
  std::vector<Export> puts;  ///< one per put step, in order
  std::array<Elements, staging_regions> staging{};
};

/// Assigns staging buffer areas to the puts of a schedule: a pure function of it, so that readers
/// and the owner agree without a word. Puts of the same bytes share an area. Packets do not, unless
/// they are to: on some machines a line that several readers poll costs more than a line for each
/// of them.
Exports exports_of(const Schedule& schedule, Protocol protocol);

/// The extent of the larger region of the staging buffer that a rank with this schedule needs.
Elements staging_extent(const Schedule& schedule, Protocol protocol);

}  // namespace capstan
