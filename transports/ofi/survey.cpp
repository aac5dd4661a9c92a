// SPDX-License-Identifier: Apache-2.0
#include "transports/ofi/survey.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>

#include "core/platform/net/network.hpp"

namespace capstan::ofi {
namespace {

std::string readable(int family, const void* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return ::inet_ntop(family, address, text.data(), text.size()) ? text.data() : "";
}

void describe_address(const fi_info& info, Candidate& candidate) {
  if (!info.src_addr) return;
  if (info.addr_format == FI_SOCKADDR_IN && info.src_addrlen >= sizeof(sockaddr_in)) {
    const auto& in = *static_cast<const sockaddr_in*>(info.src_addr);
    candidate.address = readable(AF_INET, &in.sin_addr);
    candidate.loopback = (ntohl(in.sin_addr.s_addr) >> 24) == 127;
  } else if (info.addr_format == FI_SOCKADDR_IN6 && info.src_addrlen >= sizeof(sockaddr_in6)) {
    const auto& in6 = *static_cast<const sockaddr_in6*>(info.src_addr);
    candidate.address = readable(AF_INET6, &in6.sin6_addr);
    candidate.loopback = IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr);
    candidate.link_local = IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr);
  }
}

/// Whether peers can no longer read what has been closed. verbs keeps registrations in libfabric's
/// cache, where they stay valid.
bool can_revoke(const Candidate& candidate) {
  return !candidate.provider.starts_with("verbs") || !Libfabric::get().keeps_registrations();
}

}  // namespace

Candidate candidate_of(const fi_info& info) {
  Candidate candidate;
  candidate.provider = info.fabric_attr->prov_name;
  candidate.domain = info.domain_attr->name ? info.domain_attr->name : "";
  candidate.messages = (info.caps & FI_MSG) != 0;
  candidate.tagged = (info.caps & FI_TAGGED) != 0;
  const bool remote_access =
      (info.caps & FI_RMA) != 0 && (info.domain_attr->mr_mode & FI_MR_RAW) == 0;
  constexpr std::uint64_t reads = FI_READ | FI_REMOTE_READ;
  candidate.remote_writes = remote_access;
  candidate.remote_reads = remote_access && (info.caps & reads) == reads && can_revoke(candidate);
  candidate.device_memory = (info.caps & FI_HMEM) != 0;
  if (info.nic && info.nic->link_attr) {
    candidate.gigabits = static_cast<double>(info.nic->link_attr->speed) / 1e9;
  }
  describe_address(info, candidate);
  return candidate;
}

namespace {

/// Marks the candidates whose addresses are not among those that may be used.
void keep_to(const std::string& interface, std::vector<Candidate>& candidates) {
  if (interface.empty()) return;
  const std::vector<HostAddress> wanted = choose_addresses(interface, host_addresses());
  for (Candidate& candidate : candidates)
    candidate.elsewhere =
        !candidate.address.empty() &&
        std::ranges::find(wanted, candidate.address, &HostAddress::text) == wanted.end();
}

}  // namespace

Survey survey(const OfiOptions& options) {
  Survey result;
  result.list = Libfabric::get().query(nullptr);
  for (const fi_info* entry = result.list.get(); entry; entry = entry->next) {
    result.entries.push_back(entry);
    result.candidates.push_back(candidate_of(*entry));
  }
  keep_to(options.interface, result.candidates);
  result.choice = choose_provider(result.candidates, options);
  return result;
}

}  // namespace capstan::ofi
