// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "capstan/unique_id.hpp"
#include "core/platform/net/endpoint.hpp"
#include "core/platform/net/secret.hpp"

namespace capstan {

/// The content of a unique id.
struct UniqueIdContent {
  TcpEndpoint endpoint;  ///< numeric
  Secret secret;
};

/// Throws InvalidArgument if the address is not a numeric one.
UniqueId seal(const UniqueIdContent& content);
/// Throws InvalidArgument if the bytes are not a unique id of this version, or damaged.
UniqueIdContent unseal(const UniqueId& id);

}  // namespace capstan
