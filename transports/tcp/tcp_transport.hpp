// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "core/platform/net/job_key.hpp"
#include "core/platform/net/record_seal.hpp"
#include "transports/common/borrowed.hpp"
#include "transports/transport.hpp"

namespace capstan {

struct TcpOptions {
  /// The same for all ranks, or they refuse each other. By default nobody else has it.
  JobKey key = JobKey::random();
  /// How data are sealed, the same for all ranks. Nothing: not at all.
  std::optional<RecordSeal::Mode> seal{};
  /// The addresses of this host that peers may use, as in choose_addresses(); up to eight.
  std::string interface{};
  /// The kernel's congestion control for connections, for example "cubic" or "dctcp". Empty: that
  /// of the system, but reno instead of BBR. BBR paces by the rate that it has seen, and takes the
  /// network for slower than it is, as collectives stop and go.
  std::string congestion_control{};
  /// Connections are opened when they are first needed. Otherwise connect() opens all of them, and
  /// throws BootstrapError when a rank cannot be reached.
  bool lazy = true;
  /// A host that answers nothing for that long counts as lost.
  std::chrono::milliseconds peer_timeout{10'000};
  /// The time for one address of a peer to accept a connection.
  std::chrono::milliseconds connect_timeout{5'000};
  /// The time for a process that connects to prove that it is a rank.
  std::chrono::milliseconds handshake_timeout{10'000};
  /// The time that the destructor waits while the peers' hosts acknowledge nothing, once.
  std::chrono::milliseconds linger{2'000};
};

/// The transport of rank `self` of `ranks` that are processes on any hosts, over TCP connections,
/// one for each pair of ranks that talk. All ranks give the same size of `segment`.
///
/// Connections are opened by the first push, or accepted from a peer that pushes first; both take
/// progress() of both. A peer that cannot be reached is reported by departed().
///
/// Ranks prove to each other that they know the key. What they send is as private as the network,
/// unless it is sealed.
///
/// Mirrors are written in ascending order, in whole words. wake() may be called by any thread.
/// A child that this process forks may drop its copy but not use it. It has no connections, so that
/// peers notice the end of this process whatever its children do.
///
/// Throws InvalidArgument (size, rank, interface, congestion control) and SystemError (no
/// descriptors or memory left).
std::unique_ptr<Transport> make_tcp_transport(Rank self, int ranks, Bytes segment,
                                              const TcpOptions& options = {},
                                              const Borrowed& memory = {});

}  // namespace capstan
