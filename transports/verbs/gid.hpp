// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace capstan::verbs {

/// Chooses an entry of a port's GID table: index `forced`, or the best if that is negative. Prefers
/// RoCE v2, which can be routed, to v1; IPv4 to IPv6; global to link-local addresses. Nothing if
/// the table has no such entry.
std::optional<ibv_gid_entry> choose_gid(std::span<const ibv_gid_entry> table, std::uint32_t port,
                                        int forced);

/// "10.0.0.1" or "fe80::1".
std::string text_of(const ibv_gid& gid);
/// "RoCE v2", "RoCE v1" or "InfiniBand".
std::string kind_of(const ibv_gid_entry& entry);

}  // namespace capstan::verbs
