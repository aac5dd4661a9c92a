// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "capstan/gpu_direct.hpp"
#include "core/platform/net/job_key.hpp"
#include "transports/common/borrowed.hpp"
#include "transports/transport.hpp"

namespace capstan {

/// The method of sending large pushes. Small ones are always copied into messages.
enum class OfiPushes {
  automatic,  ///< writes if the provider has them, otherwise messages
  write,      ///< remote writes into the peer's mirror
  messages,   ///< tagged messages that the peer receives into its mirror
};

/// Restricts the choice of the provider. The defaults choose automatically.
struct OfiOptions {
  /// The same for all ranks, or they refuse each other. By default nobody else has it.
  JobKey key = JobKey::random();
  /// A provider's name as `fi_info -l` shows it ("tcp;ofi_rxm"), or its part before ";". Empty: the
  /// best. "shm" has to be named, as it reaches ranks of this host alone.
  std::string provider{};
  /// A domain as `fi_info` shows it: a network interface ("eth0") or a device ("mlx5_0"). Empty:
  /// any.
  std::string domain{};
  /// The addresses of this host that may be used, as in choose_addresses(). Empty: any. For
  /// providers with IP addresses.
  std::string interface{};
  OfiPushes pushes = OfiPushes::automatic;
  /// The limit of callers' memory that stays registered between pushes, for providers that require
  /// registration.
  Bytes cached_sources{std::uint64_t{4} << 30};
  /// Whether the network card reads and writes memory of GPUs itself.
  GpuDirectUse gpu_direct = GpuDirectUse::detect;
  /// Whether peers read exposed memory also where the provider's software does it, which gains
  /// nothing: for tests.
  bool reads_by_software = false;
};

/// The transport of rank `self` of `ranks` that may be on several hosts, over libfabric, with a
/// segment of `segment` bytes.
///
/// Small pushes travel in messages, many in one; large ones as the options say. Mirrors change in
/// progress() alone, except by remote writes. A TCP connection to each peer that departed() was
/// called for, at a port of the kernel's choice, notices its death; where a firewall forbids that,
/// only the provider reports it.
///
/// Where the provider drives a network card that reads remote memory, memory can be exposed and
/// read. libfabric cannot cancel a read. Therefore a read that has to end, and does not do so in
/// 3 seconds, costs this rank its endpoint: all peers count as lost then. Where a provider answers
/// reads by software, an answer that is under way is read to its end even after revoke().
///
/// The first call loads libfabric, which is not unloaded, and turns its cache of registrations off
/// unless FI_MR_CACHE_MAX_COUNT is set: what is closed would stay readable over verbs. Where the
/// cache is on, because of that or because the program has loaded libfabric before, nothing is read
/// over verbs. A provider that pins registered memory (FI_MR_ALLOCATED: most RDMA hardware) pins
/// the segment and a mirror of the same size per peer; `ulimit -l` bounds that. connect() and all
/// later functions must be called in the process that made the transport; a forked child may
/// destroy its copy but not use it.
///
/// Throws InvalidArgument when no provider fits the options, which then lists all providers, or
/// when this build has no libfabric; SystemError when libfabric cannot be loaded or fails.
std::unique_ptr<Transport> make_ofi_transport(Rank self, int ranks, Bytes segment,
                                              const OfiOptions& options = {},
                                              const Borrowed& memory = {});

/// Whether this build has the transport. Does not load libfabric.
bool ofi_is_built_in();

/// For `capstan doctor`: the providers of libfabric here.
struct OfiReport {
  bool available = false;          ///< whether a usable provider was found
  std::string version;             ///< of libfabric; empty when it is absent
  std::vector<std::string> found;  ///< a line per provider and domain, the best first
  std::string chosen;              ///< "tcp;ofi_rxm on eth0"
  std::string reason;              ///< why that one was chosen, or none
};

/// Never throws.
OfiReport ofi_report(const OfiOptions& options = {});

}  // namespace capstan
