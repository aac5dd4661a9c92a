#pragma once

#include <vector>

#include "capstan/hosts.hpp"
#include "core/lowering/call.hpp"
#include "core/lowering/program.hpp"
#include "core/selection/link_model.hpp"

namespace capstan {

/// What programs do not tell about a call.
struct SimulatedCall {
  Bytes element{};
  bool synchronizes = true;         ///< see Guarantees
  bool in_place = false;            ///< copies of inputs to outputs change nothing
  Bytes of_rank{};                  ///< input and output, of the rank that has most
  Bytes of_all{};                   ///< the same of all ranks
  Bytes shortest{};                 ///< of all buffers
  PeerMappedBuffers peer_mapped{};  ///< buffers that peers load from instead of reading them
};

/// Predicted time of one call among calls that follow one another, of which `programs` are the
/// programs of all ranks for one block.
double simulate(const std::vector<Program>& programs, const Hosts& hosts, const SimulatedCall& call,
                const LinkModel& model);

}  // namespace capstan
