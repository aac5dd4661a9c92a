// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "transports/verbs/handles.hpp"
#include "transports/verbs/verbs_address.hpp"
#include "transports/verbs/verbs_transport.hpp"

namespace capstan::verbs {

/// One port of an RDMA device, opened.
struct Device {
  /// Opens the port that `options` choose for rank `self`. Throws SystemError that says why no port
  /// is usable.
  static Device open(Rank self, const VerbsOptions& options);

  /// Sets the fields of an address that tell how to reach this port.
  void describe(VerbsAddress& address) const;
  /// The route from this port to a peer.
  ibv_ah_attr route_to(const VerbsAddress& peer) const;

  Context context;
  ProtectionDomain domain;
  ibv_device_attr limits{};
  std::string name;          // "mlx5_0:1"
  bool is_software = false;  // Soft-RoCE, soft iWARP
  std::uint8_t port_number = 0;
  ibv_port_attr port{};
  ibv_gid_entry gid{};
};

}  // namespace capstan::verbs
