#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "transports/common/borrowed.hpp"
#include "transports/transport.hpp"

namespace capstan {

struct VerbsOptions {
  /// Devices to use, "mlx5_0" or with a port "mlx5_0:2"; rank r uses entry r modulo their number.
  /// Empty: the first port that is up.
  std::vector<std::string> devices;
  /// Entry of the port's GID table; -1: the best one (RoCE v2 with IPv4, with IPv6, RoCE v1).
  int gid_index = -1;
  /// How long a peer may leave packets unanswered before it counts as lost. The hardware knows
  /// powers of two only, and may take up to four times as long.
  std::chrono::milliseconds peer_timeout{1000};
  /// Requests under way to one peer at most; fewer where the device, or the number of ranks, says.
  int send_depth = 128;
  /// Memory is pinned in pieces of this size, when they are first used. A power of two of at least
  /// 4 KiB, the same on all ranks.
  Bytes piece{2 << 20};
  /// How much of the callers' memory that was pushed from stays pinned for the next time.
  Bytes cached_sources{std::uint64_t{4} << 30};
  /// Whether short pushes travel inside their request, where the device can do that.
  bool inline_data = true;
};

/// A port through which ranks can be reached.
struct VerbsDevice {
  std::string name;         // as VerbsOptions::devices takes it
  std::string description;  // "RoCE v2, 10.0.0.1, 4096 bytes a packet"
};

/// All usable ports; none where there is no RDMA device, or this build has no verbs.
std::vector<VerbsDevice> verbs_devices();

/// Why rank 0 could use no port with these options, and what to do about it; empty if it could.
std::string verbs_obstacle(const VerbsOptions& options = {});

/// The transport of rank `self` of `ranks` over RDMA: reliably connected queue pairs of libibverbs,
/// over InfiniBand or RoCE. A push is a write by the network card into the mirror at the peer; the
/// last one of each wake tells the peer, so that it can sleep.
///
/// The address has the same size for any number of ranks, and one queue pair per peer is made in
/// connect(). Only ranks of the job can connect: what a stranger would need to know goes through
/// the exchange of addresses. Memory of the segment, and of mirrors, is pinned (ulimit -l) in
/// pieces when used; of each mirror, the first piece at once.
///
/// A child that the process forks may drop its copy but
/// not use it. Throws InvalidArgument for impossible sizes and options, and SystemError when there
/// is no usable device.
std::unique_ptr<Transport> make_verbs_transport(Rank self, int ranks, Bytes segment,
                                                const VerbsOptions& options = {},
                                                const Borrowed& memory = {});

}  // namespace capstan
