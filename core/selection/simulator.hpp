#pragma once

#include "capstan/by_rank.hpp"
#include "capstan/hosts.hpp"
#include "core/lowering/call.hpp"
#include "core/lowering/program.hpp"
#include "core/selection/link_model.hpp"

namespace capstan {

/// Facts about a call that its programs do not hold.
struct SimulatedCall {
  Bytes element{};
  bool synchronizes = true;         ///< see Guarantees
  bool in_place = false;            ///< copies of inputs to outputs change nothing
  Bytes of_rank{};                  ///< input and output of the rank that has most
  Bytes of_all{};                   ///< inputs and outputs of all ranks
  Bytes shortest{};                 ///< the shortest buffer of all ranks that is not empty
  PeerMappedBuffers peer_mapped{};  ///< buffers that peers load from instead of reading them
};

/// Predicted time of one call, in nanoseconds, among equal calls that follow one another.
/// `programs` are the programs of all ranks for one block. A pure function.
double simulate(const ByRank<Program>& programs, const Hosts& hosts, const SimulatedCall& call,
                const LinkModel& model);

}  // namespace capstan
