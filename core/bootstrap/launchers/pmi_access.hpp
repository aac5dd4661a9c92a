// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/platform/net/endpoint.hpp"

namespace capstan::pmi {

/// The socket or port at which the launcher serves PMI to this process.
struct Access {
  int descriptor = -1;                   ///< an open socket, PMI_FD
  std::optional<TcpEndpoint> port = {};  ///< the port where there is no socket, PMI_PORT
  int id = -1;                           ///< tells the launcher which process connects, PMI_ID
  bool survives_a_second_start = false;  ///< of the conversation; see pmi.hpp
};

}  // namespace capstan::pmi
