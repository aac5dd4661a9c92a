#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transports/common/borrowed.hpp"
#include "transports/transport.hpp"

namespace capstan {

/// How large pushes travel. Small ones are always copied into messages.
enum class OfiPushes {
  automatic,  ///< writes where the provider has them, otherwise messages
  write,      ///< remote writes into the peer's mirror
  messages,   ///< tagged messages that the peer receives into its mirror
};

/// What the choice of the provider may be told. The defaults let it choose.
struct OfiOptions {
  /// A provider's name as `fi_info -l` has it ("tcp;ofi_rxm"), or its part before ";". Empty: the
  /// best there is; "shm" must be asked for, as it reaches ranks of this host alone.
  std::string provider;
  /// A domain as `fi_info` has it: a network interface ("eth0") or a device ("mlx5_0"). Empty: any.
  std::string domain;
  /// Which of this host's addresses may be used, as in choose_addresses(). Empty: any. Concerns
  /// providers that are reached by IP addresses.
  std::string interface;
  OfiPushes pushes = OfiPushes::automatic;
  /// How much of the callers' memory that was pushed from stays registered for the next time, where
  /// the provider wants it registered.
  Bytes cached_sources{std::uint64_t{4} << 30};
};

/// The transport of rank `self` of `ranks` that may be on several hosts, over libfabric, with a
/// segment of `segment` bytes.
///
/// Small pushes travel as messages, many in one; large ones as the options say. Mirrors change in
/// progress() alone, except where a large push is written to. Deaths are noticed by a TCP
/// connection to each peer that departed() was asked about, at a port that the kernel chooses;
/// where a firewall forbids them, only by what the provider tells.
///
/// libfabric is loaded when this is called first, and is not unloaded. A provider that pins what it
/// registers (FI_MR_ALLOCATED: most RDMA hardware) pins the segment and a mirror of the same size
/// per peer; `ulimit -l` bounds that. connect() and all after it must be called in the process that
/// made the transport; a child that it forks may drop its copy but not use it.
///
/// Throws InvalidArgument that lists the providers there are when none fits the options, and when
/// this build has no libfabric; SystemError when libfabric cannot be loaded or refuses.
std::unique_ptr<Transport> make_ofi_transport(Rank self, int ranks, Bytes segment,
                                              const OfiOptions& options = {},
                                              const Borrowed& memory = {});

/// Whether this build has the transport; libfabric is not loaded to know it.
bool ofi_is_built_in();

/// What `capstan doctor` says about libfabric.
struct OfiReport {
  bool available = false;          ///< a provider that can be used was found
  std::string version;             ///< of libfabric; empty when it is not there
  std::vector<std::string> found;  ///< a line per provider and domain, the best first
  std::string chosen;              ///< "tcp;ofi_rxm on eth0"
  std::string reason;              ///< why that one, or why none
};

/// Never throws.
OfiReport ofi_report(const OfiOptions& options = {});

}  // namespace capstan
