// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/platform/net/secret.hpp"

namespace capstan {

/// Encrypts and authenticates data (XChaCha20-Poly1305): only who knows `secret` can read or make
/// the result. It can be decrypted under the same `context` only, so that what was made for one
/// place is not taken for what belongs in another.
std::vector<std::byte> encrypt(const Secret& secret, std::span<const std::byte> data,
                               std::string_view context);
/// Empty if `encrypted` was made with another secret, for another context, or changed.
std::optional<std::vector<std::byte>> decrypt(const Secret& secret,
                                              std::span<const std::byte> encrypted,
                                              std::string_view context);

}  // namespace capstan
