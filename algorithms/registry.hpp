#pragma once

#include <span>
#include <string_view>

#include "capstan/blocks.hpp"
#include "capstan/collective.hpp"
#include "capstan/schedule.hpp"

namespace capstan {

/// What one call costs the busiest rank, for the selector and for explanations. Data are counted in
/// elements, so that a cost does not depend on the type.
struct Cost {
  double steps = 0;    ///< messages that follow one another: each pays the link's latency
  double sent = 0;     ///< elements sent
  double reduced = 0;  ///< elements read by reductions
};

/// What an algorithm promises beyond its collective. Proofs hold it to that.
struct Guarantees {
  /// No rank returns before every rank has entered: back-to-back calls need no other protection
  /// of scratch than rotating slots.
  bool synchronizes = false;
  /// In a stream of blocks no rank runs so far ahead that it writes to one of three rotating slots
  /// while another still reads it. If not, slots are acquired there too.
  bool paced = false;
  /// Sums are combined in the order of ranks, so that the operation need not be commutative.
  bool ordered = false;
  /// Each sum is one reduction of all contributions in the order of ranks: algorithms that promise
  /// it give the same results, bit by bit. (Not proven: a test compares them.)
  bool one_sum = false;
};

/// Where nearly all that travels comes from: peers may as well read it there.
enum class Sends : std::uint8_t {
  sums,     ///< partial results
  inputs,   ///< straight out of inputs
  outputs,  ///< out of inputs, then out of finished parts of outputs
  results   ///< the same, into the outputs of others
};

/// For which hosts an algorithm is meant. It is right on all.
enum class Meant : std::uint8_t {
  anywhere,
  several_hosts,  ///< of which some have several ranks
  even_hosts      ///< the same, with equal numbers of ranks
};

/// An algorithm as declared in the registry: a pure function from (group, shape) to a schedule.
struct Algorithm {
  std::string_view name;
  Collective collective;
  std::string_view summary;  ///< one line for `--help` and explanations
  Schedule (*build)(const Group& group, const Shape& shape);
  /// `count`: Contract::typical_count().
  Cost (*cost)(int ranks, Elements count);
  int max_ranks;  ///< above it a rank's schedule would be unreasonably long
  Guarantees guarantees{};
  Sends sends = Sends::sums;
  Meant meant = Meant::anywhere;

  bool is_meant_for(const Hosts& hosts) const {
    return meant == Meant::anywhere || (!hosts.single() && hosts.count() < hosts.ranks() &&
                                        (meant == Meant::several_hosts || hosts.even()));
  }

  /// The schedule of one rank of `group`. A group of one only copies. Throws InvalidArgument when
  /// the group is larger than max_ranks.
  Schedule schedule(const Group& group, const Shape& shape) const;
};

/// All algorithms of a collective, in order of declaration.
std::span<const Algorithm> algorithms(Collective collective);

/// The algorithm named `name`. Throws InvalidArgument, which lists the known names.
const Algorithm& algorithm_named(Collective collective, std::string_view name);

}  // namespace capstan
