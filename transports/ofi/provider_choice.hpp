// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transports/ofi/ofi_transport.hpp"

namespace capstan::ofi {

/// The properties of one entry of fi_getinfo(3) on which the choice depends.
struct Candidate {
  std::string provider;
  std::string domain;
  std::string address;  // readable, may be empty
  bool messages = false;
  bool tagged = false;
  bool remote_writes = false;
  bool remote_reads = false;   // of memory that can be revoked
  bool device_memory = false;  // FI_HMEM
  bool loopback = false;       // its address is only valid on this host
  bool link_local = false;     // its address needs a scope that differs between hosts
  bool elsewhere = false;      // its address is not among those that may be used
  double gigabits = 0;         // of the NIC; 0: not known
};

struct Choice {
  /// Indices of the candidates that can be used and match the options, the best first.
  std::vector<std::size_t> ranking;
  /// Why the first is the best, or why there is none; without a full stop.
  std::string reason;
};

/// Ranks `candidates`: networks with hardware of their own first, then TCP. Providers that are slow
/// or reach this host alone have to be named. Depends on nothing but its arguments.
Choice choose_provider(std::span<const Candidate> candidates, const OfiOptions& options);

/// Whether a network card reads remote memory. Otherwise software does, in this rank's calls alone.
bool card_reads(const Candidate& candidate);

/// Whether messages are to be read out of their senders' memory over this provider.
bool reads_memory(const Candidate& candidate, const OfiOptions& options);

/// "tcp;ofi_rxm on eth0 (192.0.2.2)".
std::string describe(const Candidate& candidate);

}  // namespace capstan::ofi
