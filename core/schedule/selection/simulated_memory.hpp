// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "capstan/hosts.hpp"
#include "core/schedule/lowering/program.hpp"
#include "core/schedule/selection/link_model.hpp"
#include "core/schedule/selection/simulated_clock.hpp"
#include "core/schedule/selection/simulator.hpp"

namespace capstan {

/// Costs of reading and writing buffers and staging buffers, also where ranks contend for memory.
class SimulatedMemory {
 public:
  /// The arguments have to outlive it, but for `call`.
  SimulatedMemory(const Hosts& hosts, const SimulatedCall& call, const LinkModel& model)
      : hosts_(hosts),
        element_(call.element),
        in_place_(call.in_place),
        in_dram_(model.exceed_cache(call.of_rank)),
        local_byte_(model.local_byte * (in_dram_ ? model.dram_local_factor : 1)),
        huge_(model.huge_pages && call.shortest >= worth_huge_pages),
        pages_(call.of_all > model.host_cache && !huge_ ? model.page_lookup_factor : 1),
        seen_(call.peer_mapped),
        model_(model) {}

  /// No access of an earlier call contends with those that follow.
  void begin_call() {
    reads_.clear();
    copies_.clear();
  }

  /// Charges a rank for an operation that reads its sources and writes its destinations.
  void gather(Clock& clock, const Program& program, const Op& op);

 private:
  struct Interval {
    double begin, end;
  };

  /// The time of a read or write without others at the same time.
  struct Transfer {
    double fixed, moving;
    double alone() const { return fixed + moving; }
  };

  double cost_of_writing(const Op& op, const Operand& source) const;
  double dram_byte() const;
  double first_bytes(double bytes) const;
  void write(Clock& clock, const Operand& destination, double bytes, double own_byte);
  void write_peer(Clock& clock, const Operand& destination, double bytes);
  void read_staging(Clock& clock, const Operand& source, double bytes);
  void read_peer(Clock& clock, const Operand& source, const Op& op, double bytes);
  void read(Clock& clock, std::pair<Place, Rank> memory, const Transfer& cost, double contention);
  void await_other_copies(Clock& clock, Rank peer, const Transfer& cost);
  static double overlaps(const std::vector<Interval>& others, double begin, double end);

  const Hosts& hosts_;
  const Bytes element_;
  const bool in_place_;
  const bool in_dram_;  // buffers exceed the cache
  const double local_byte_;
  const bool huge_;     // buffers are in huge pages
  const double pages_;  // LinkModel::page_lookup_factor where it applies, else 1
  const PeerMappedBuffers seen_;
  const LinkModel& model_;
  std::map<std::pair<Place, Rank>, std::vector<Interval>> reads_;  // this call, by owner of memory
  std::map<int, std::vector<Interval>> copies_;                    // the kernel's, by host
};

}  // namespace capstan
