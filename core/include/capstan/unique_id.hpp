// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "capstan/export.hpp"

namespace CAPSTAN_EXPORT capstan {

/// All that a rank needs to find and trust the others of one communicator: 128 bytes that a
/// program passes round by means of its own, as bytes or as text. Every process that has the id can
/// join: treat it as a password.
struct UniqueId {
  std::array<std::byte, 128> bytes;
  bool operator==(const UniqueId&) const = default;
};

/// Starts a rendezvous server for the ranks of one communicator inside this process, which may be
/// one of the ranks, and returns the id by which they join. The server listens on `address`, a name
/// or address of this host that all ranks can reach, until all have joined, and ends when all have
/// left again or with this process. An empty address is the one that other hosts reach, as
/// CAPSTAN_INTERFACE says. Throws SystemError if the server cannot listen on the address,
/// InvalidArgument if it stands for all addresses (0.0.0.0 or ::). May be called from any thread.
[[nodiscard]] UniqueId create_unique_id(const std::string& address = "127.0.0.1");

/// Ends the server of an id by which nobody will join any more. Does nothing if the server is not
/// in this process, or all ranks have joined. May be called from any thread.
void discard(const UniqueId& id);

/// 171 letters, digits, '-' and '_'.
std::string to_string(const UniqueId& id);
/// Throws InvalidArgument if `text` is not a result of to_string.
UniqueId unique_id_from_string(std::string_view text);

}  // namespace CAPSTAN_EXPORT capstan
