// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "core/platform/net/endpoint.hpp"

namespace capstan {

/// The value that rank 0 puts into the launcher's key-value store for the other ranks: the address
/// of its store, or the reason why there is none.
struct StoreAddress {
  TcpEndpoint endpoint{};
  std::string secret{};
  std::string refusal{};  ///< not empty: there is no store
  bool operator==(const StoreAddress&) const = default;
};

std::string to_text(const StoreAddress& address);
/// Throws BootstrapError for a text that to_text() has not made.
StoreAddress parse_store_address(std::string_view text);

}  // namespace capstan
