// SPDX-License-Identifier: Apache-2.0
#include "core/platform/device/libfabric_hmem.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/platform/device/libfabric.hpp"

namespace capstan {
namespace {

/// Software providers copy device memory with the CPU, or reach this host only.
bool is_software(std::string_view provider) {
  constexpr std::string_view names[] = {"shm", "sm2", "tcp", "net", "udp", "sockets", "lnx"};
  return std::ranges::any_of(names, [&](auto name) { return provider.starts_with(name); });
}

}  // namespace

std::vector<std::string> hmem_providers(std::shared_ptr<SharedLibrary> library) {
  const Libfabric libfabric{std::move(library)};
  const Libfabric::Info hints = libfabric.hints();
  hints->caps = FI_HMEM;
  hints->mode = ~std::uint64_t{0};  // all that a provider may require of its user
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |
                                FI_MR_ENDPOINT | FI_MR_HMEM;
  const Libfabric::Info found = libfabric.query(hints.get());
  std::vector<std::string> names;
  for (const fi_info* info = found.get(); info; info = info->next) {
    if ((info->caps & FI_HMEM) == 0 || !info->fabric_attr) continue;
    const char* provider = info->fabric_attr->prov_name;
    const std::string name = provider ? provider : "unnamed";
    if (!is_software(name) && std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

}  // namespace capstan
