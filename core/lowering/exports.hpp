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

/// The area of a rank's board that holds what one put sends.
struct Export {
  std::uint8_t region;
  Elements board;
  bool fresh;  ///< false: the bytes are there already: in a buffer, or put by an earlier put
  Place place = Place::board;  ///< or the buffer that is read itself; `board` is the place in it
  bool delivered = false;      ///< written to where the receiver wants it: nobody reads it anywhere

  Operand operand(Rank owner) const { return {place, owner, region, board}; }
  /// Whether its receiver reads a buffer of the sender.
  bool read_in_place() const { return !delivered && place != Place::board; }
};

struct Exports {
  std::vector<Export> puts;  ///< one per put step, in order
  std::array<Elements, board_regions> board{};
};

/// Assigns board areas to the puts of a schedule: a pure function of it, so that readers and the
/// owner agree without a word. Puts of the same bytes share an area. Packets do not, unless they
/// are to: on some machines a line that several readers poll costs more than a line for each of
/// them.
Exports exports_of(const Schedule& schedule, Protocol protocol);

/// The extent of the larger region of the board that a rank with this schedule needs.
Elements board_extent(const Schedule& schedule, Protocol protocol);

}  // namespace capstan
