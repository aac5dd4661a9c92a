// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "capstan/by_rank.hpp"
#include "capstan/hosts.hpp"
#include "capstan/settings.hpp"
#include "core/engine/control/process.hpp"
#include "core/engine/control/segment.hpp"
#include "core/platform/net/job_key.hpp"
#include "core/profiles/find_profile.hpp"
#include "core/schedule/lowering/plan.hpp"
#include "core/schedule/selection/link_model.hpp"
#include "topology/cpu_set.hpp"

namespace capstan {

/// The machine as the ranks of a world have found it. Equal on all ranks but for the last three
/// members.
struct MachineView {
  bool threads = false;            ///< ranks are threads of one process
  Hosts hosts{1};                  ///< of the ranks
  Network network = Network::tcp;  ///< between hosts
  JobKey key = JobKey::random();   ///< of the world: by it ranks recognise each other there
  bool shares_cores = false;       ///< some ranks of some host share a core
  /// Counts where ranks share cores: the number of ranks on the largest host, divided by the most
  /// ranks that any core of any host runs.
  double cores = 1;
  Bytes chunk{256 << 10};         ///< staged bytes per rank and block that stay in its cache
  bool reads_peers = false;       ///< every rank can read every other's memory
  bool huge_pages = false;        ///< every rank may put its buffers into huge pages, and can
  bool autotunes = false;         ///< every rank wants calls to be measured
  Bytes cached_buffers{8 << 20};  ///< input and output of a rank that the last cache has room for
  ProfileContent profile{};       ///< the same on all ranks
  bool oversubscribed = false;    ///< ranks on this host share cores: waits yield them early
  bool free_core = false;         ///< each rank's progress thread has a core, bound to it or not
  CpuSet spare_processors{};      ///< a core without ranks, for this rank's progress thread
  int position = 0;               ///< of this rank among those on its host
  ByRank<Process> processes{};    ///< of all ranks of the world; equal on all of them
};

/// The same with the chunk that the program has set, if it has.
MachineView with_chunk_of(const Settings& settings, MachineView machine);

/// The same with limits that no clock counts made the longest one that calculations can bear.
Settings with_countable_times(Settings settings);

/// The values of CAPSTAN_NETWORK, in the order of Network.
/// The values of CAPSTAN_REPRODUCIBLE, in the order of Reproducible.
inline constexpr std::array<std::string_view, 5> reproducible_names{"none", "run", "shape",
                                                                    "placement", "rank_order"};
inline constexpr std::array<std::string_view, 4> network_names{"auto", "tcp", "ofi", "verbs"};
/// The name of the network that carries the data: without a choice it is tcp.
std::string_view word_for(Network network);

/// The model of the links between ranks of this machine, for calls in memory of the host or, if
/// `devices` are named, in that of devices with such links.
LinkModel link_model(const MachineView& machine, const Settings& settings,
                     std::optional<DeviceLink> devices = {});

/// The length of the usual block of a long call: a chunk for each rank, up to a limit.
Bytes block_bytes(int ranks, Bytes chunk);

/// The limits of plans that run in memory of the host.
PlanLimits plan_limits(const MachineView& machine);

/// The length of the ring for messages from each peer. Between hosts no rank reads the memory of
/// others: all of a long message goes through the ring, and a larger ring is refilled less often.
/// Among many ranks it stays small, as each rank maps the segments of all.
Bytes message_ring(const Hosts& hosts);

/// The segment that the ranks of a communicator on these hosts need.
SegmentLayout segment_layout(const Hosts& hosts, const MachineView& machine,
                             const Settings& settings);

}  // namespace capstan
