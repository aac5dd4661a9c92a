#pragma once

#include <string>
#include <string_view>

#include "core/net/endpoint.hpp"

namespace capstan {

/// What rank 0 leaves for the other ranks with a launcher that keeps values: where its store is, or
/// why it has opened none.
struct StoreAddress {
  TcpEndpoint endpoint{};
  std::string secret{};
  std::string refusal{};  ///< not empty: there is no store
  bool operator==(const StoreAddress&) const = default;
};

std::string to_text(const StoreAddress& address);
/// Throws BootstrapError for a text that is no address.
StoreAddress parse_store_address(std::string_view text);

}  // namespace capstan
