// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "capstan/hosts.hpp"
#include "core/schedule/simulation/fabric.hpp"

namespace capstan {

/// The costs of a rank's own part of a call, in nanoseconds; per byte where the name says so.
/// `send` and `receive` are LogGP's overheads of a message. Defaults: a message through a network
/// card that moves the data itself, and memory as core/schedule/selection's LinkModel has it.
struct RankCosts {
  double call = 60;            ///< any call
  double send = 400;           ///< a message to another host
  double receive = 400;        ///< a message from another host
  double cpu_byte = 0;         ///< sent or received, where the processor moves the data
  double signal = 40;          ///< raising a flag for a rank on the same host
  double flag = 250;           ///< until that rank has seen it
  double copy_byte = 0.02;     ///< of each buffer that is read or written
  double reduce_byte = 0.008;  ///< of each source that is combined, on top
};

/// The costs of ranks on GPUs where nothing else is known: they copy and combine as fast as memory
/// of 2 TB/s lets them.
RankCosts gpu_costs();

/// The cost that is called so in options and files, such as "cpu-byte"; null if there is none.
double* cost_named(RankCosts& costs, std::string_view name);
/// "call, send, ...".
std::string cost_names();

/// A cluster that calls are simulated on.
struct Cluster {
  Hosts hosts{1};
  std::shared_ptr<const Fabric> fabric;
  bool port_per_rank = false;  ///< else one per host
  RankCosts costs{};
  /// Reads of the memory of another rank on the same host: shared memory, or a link of processors.
  LinkClass memory{"memory", 70, 0.06};

  int port_of(Rank rank) const { return port_per_rank ? rank.value() : hosts.host_of(rank); }
};

}  // namespace capstan
