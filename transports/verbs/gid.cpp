// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/gid.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

namespace capstan::verbs {
namespace {

in6_addr ip_of(const ibv_gid& gid) {
  in6_addr address{};
  static_assert(sizeof(address) == sizeof(gid.raw));
  std::memcpy(&address, gid.raw, sizeof(address));
  return address;
}

int preference(const ibv_gid_entry& entry) {
  const in6_addr address = ip_of(entry.gid);
  const int reach = IN6_IS_ADDR_V4MAPPED(&address) ? 2 : IN6_IS_ADDR_LINKLOCAL(&address) ? 0 : 1;
  return entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? 3 + reach : reach;
}

}  // namespace

std::optional<ibv_gid_entry> choose_gid(std::span<const ibv_gid_entry> table, std::uint32_t port,
                                        int forced) {
  std::optional<ibv_gid_entry> best;
  for (const ibv_gid_entry& entry : table) {
    if (entry.port_num != port) continue;
    if (forced >= 0 && entry.gid_index != static_cast<std::uint32_t>(forced)) continue;
    if (!best || preference(entry) > preference(*best)) best = entry;
  }
  return best;
}

std::string text_of(const ibv_gid& gid) {
  const in6_addr address = ip_of(gid);
  char text[INET6_ADDRSTRLEN] = "";
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    ::inet_ntop(AF_INET, gid.raw + 12, text, sizeof(text));
  } else {
    ::inet_ntop(AF_INET6, gid.raw, text, sizeof(text));
  }
  return text;
}

std::string kind_of(const ibv_gid_entry& entry) {
  switch (entry.gid_type) {
    case IBV_GID_TYPE_ROCE_V2:
      return "RoCE v2";
    case IBV_GID_TYPE_ROCE_V1:
      return "RoCE v1";
    default:
      return "InfiniBand";
  }
}

}  // namespace capstan::verbs
