// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "capstan/reproducible.hpp"
#include "core/schedule/selection/predictor.hpp"

namespace capstan {

/// An algorithm in a protocol, with what it is predicted to take.
struct Candidate {
  const Algorithm* algorithm = nullptr;
  Protocol protocol = Protocol::staged;
  double nanoseconds = std::numeric_limits<double>::infinity();
  PredictedTime parts{};
  bool needs_tuning = false;  ///< chosen only after it was measured to be fast

  /// Whether this candidate is faster by more than the rounding of a sum in another order.
  bool beats(const Candidate& other) const { return nanoseconds < other.nanoseconds * (1 - 1e-9); }
};

/// The order in which a call needs its sums to be added.
enum class SumOrder : std::uint8_t {
  any,
  ranks,          ///< that of ranks, however they are grouped: the operation is not commutative
  left_fold,      ///< that of ranks, one after the other: every such sum rounds alike
  one_reduction,  ///< the same in one step, where sums round when they are stored
  hosts           ///< the sums of hosts in their order, each of them one reduction
};
SumOrder needed_order(const Call& call, const Hosts& hosts, bool commutative, Reproducible promise);
/// The same for calls with the operation that they name. `promise`: of calls without one.
SumOrder needed_order(const Call& call, const Hosts& hosts, Reproducible promise);

/// The reason why an algorithm in a protocol is no candidate for a call.
enum class Obstacle : std::uint8_t {
  none,
  ranks,          ///< more ranks than it is made for
  hosts,          ///< made for other hosts
  order,          ///< the operation is not commutative
  bits,           ///< reproducible sums are asked for
  one_reduction,  ///< made for reproducible sums, which are not asked for
  protocol,       ///< the algorithm does not run in this protocol
  peers,          ///< ranks cannot read each other's memory
  kernels,        ///< kernels of devices read no buffers of peers
  stores,         ///< kernels of devices have no other way to write
  short_call,     ///< too short to be written past the cache
  shared_cores,   ///< copies by the kernel are slow where ranks share cores
  packet_length,  ///< its packets exceed a slot
  same            ///< does the same as the protocol before
};

/// "ranks cannot read each other's memory (see capstan doctor)".
std::string why(Obstacle obstacle, const Algorithm& algorithm);

/// The obstacle between sums in such an order and an algorithm, on hosts that it suits.
Obstacle obstacle(const Algorithm& algorithm, SumOrder order);
/// The obstacle between a call and an algorithm that a rule asks for, whatever the protocol.
Obstacle obstacle_to_rule(const Algorithm& algorithm, const Hosts& hosts, SumOrder order);
/// The obstacle between a call and an algorithm, whatever the protocol.
Obstacle obstacle(const Algorithm& algorithm, const Hosts& hosts, SumOrder order);
/// The obstacle between a call and an algorithm in a protocol; never Obstacle::same.
Obstacle obstacle(const Algorithm& algorithm, Protocol protocol, const Hosts& hosts,
                  const Call& call, const LinkModel& model, bool wanted);

/// The candidates of one algorithm: in all protocols in which it runs, or in `wanted` only.
std::vector<Candidate> candidates_of(const Algorithm& algorithm, const Hosts& hosts,
                                     const Call& call, const LinkModel& model,
                                     std::optional<Protocol> wanted = {});

/// The algorithms that can run the call.
std::vector<const Algorithm*> able(const Call& call, const Hosts& hosts, SumOrder order);

/// The candidates of these algorithms, which can run the call.
std::vector<Candidate> candidates_of(const std::vector<const Algorithm*>& algorithms,
                                     const Hosts& hosts, const Call& call, const LinkModel& model);
/// The candidates of all algorithms that can run the call.
std::vector<Candidate> candidates_for(const Call& call, const Hosts& hosts, SumOrder order,
                                      const LinkModel& model);

/// The candidate with the least predicted time, or the first of several. Without candidates, one
/// without an algorithm that every other one beats.
Candidate best_of(const std::vector<Candidate>& candidates);

/// The candidates that may be chosen without having been measured.
std::vector<Candidate> untuned(std::vector<Candidate> candidates);

/// Whether the result of an algorithm is bitwise reproducible, whichever rank computes which part.
bool is_reproducible(const Algorithm& algorithm, const Call& call);

/// Whether the choice for such calls is reproducible, whatever the model says. It costs nothing on
/// the modelled machine, as a test holds.
bool stays_reproducible(const Call& call, int ranks);

/// Whether two algorithms give the same result, bit by bit. A protocol never changes a result.
bool agree(const Algorithm& a, const Algorithm& b, const Call& call);

}  // namespace capstan
