// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "capstan/gpu_direct.hpp"
#include "core/platform/net/job_key.hpp"
#include "transports/common/borrowed.hpp"
#include "transports/transport.hpp"

namespace capstan {

struct VerbsOptions {
  /// The same for all ranks, or they refuse each other. By default nobody else has it.
  JobKey key = JobKey::random();
  /// Devices to use, "mlx5_0" or with a port "mlx5_0:2"; rank r uses entry r modulo their number.
  /// Empty: the first port that is up.
  std::vector<std::string> devices{};
  /// Entry of the port's GID table; -1: the best one (RoCE v2 with IPv4, with IPv6, RoCE v1).
  int gid_index = -1;
  /// The time without acknowledgements after which a peer counts as lost. The hardware rounds it to
  /// a power of two, and may take up to four times as long.
  std::chrono::milliseconds peer_timeout{1000};
  /// The most requests in flight to one peer; fewer if the device or the number of ranks require
  /// it.
  int send_depth = 128;
  /// Memory is pinned in pieces of this size, when they are first used. A power of two of at least
  /// 4 KiB, the same on all ranks.
  Bytes piece{2 << 20};
  /// The limit of callers' memory that stays pinned between pushes.
  Bytes cached_sources{std::uint64_t{4} << 30};
  /// Whether the device reads and writes memory of GPUs itself.
  GpuDirectUse gpu_direct = GpuDirectUse::detect;
  /// Whether short pushes travel inside their request, if the device supports it.
  bool inline_data = true;
};

/// Whether this build has the transport. Opens no device.
bool verbs_is_built_in();

/// A port through which ranks can be reached.
struct VerbsDevice {
  std::string name;         // as VerbsOptions::devices takes it
  std::string description;  // "RoCE v2, 10.0.0.1, 4096 bytes a packet"
};

/// All usable ports; none without an RDMA device, or if this build has no verbs.
std::vector<VerbsDevice> verbs_devices();

/// Why rank 0 can use no port with these options, and the remedy; empty if it can.
std::string verbs_obstacle(const VerbsOptions& options = {});

/// The transport of rank `self` of `ranks` over RDMA: reliably connected queue pairs of libibverbs,
/// over InfiniBand or RoCE. A push is a write by the network card into the mirror at the peer. The
/// last write of each wake notifies the peer, so that it can sleep.
///
/// The address has the same size for any number of ranks; connect() makes one queue pair per peer.
/// Only ranks of the job can connect: they sign what they need for it with the key. Memory of the
/// segment and of the mirrors is pinned (ulimit -l) in pieces when used, the first piece of each
/// mirror at once.
///
/// A forked child may destroy its copy but not use it. Throws InvalidArgument for impossible sizes
/// and options, and SystemError when there is no usable device.
std::unique_ptr<Transport> make_verbs_transport(Rank self, int ranks, Bytes segment,
                                                const VerbsOptions& options = {},
                                                const Borrowed& memory = {});

}  // namespace capstan
