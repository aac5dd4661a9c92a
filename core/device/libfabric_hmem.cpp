#include "core/device/libfabric_hmem.hpp"

#include <algorithm>
#include <string_view>

namespace capstan {
namespace {

using libfabric_abi::Info;

/// They take device memory by copying it with the CPU, or reach this host only.
bool is_software(std::string_view provider) {
  constexpr std::string_view names[] = {"shm", "sm2", "tcp", "net", "udp", "sockets", "lnx"};
  return std::ranges::any_of(names, [&](auto name) { return provider.starts_with(name); });
}

std::vector<std::string> names_in(const Info* info) {
  std::vector<std::string> names;
  for (; info != nullptr; info = info->next) {
    if ((info->capabilities & libfabric_abi::hmem) == 0 || info->fabric == nullptr) continue;
    const std::string name = info->fabric->provider != nullptr ? info->fabric->provider : "unnamed";
    if (!is_software(name) && std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

}  // namespace

std::vector<std::string> hmem_providers(const SharedLibrary& libfabric) {
  using namespace libfabric_abi;
  int (*get_info)(std::uint32_t, const char*, const char*, std::uint64_t, const Info*, Info**) =
      nullptr;
  void (*free_info)(Info*) = nullptr;
  Info* (*duplicate_info)(const Info*) = nullptr;
  libfabric.find(get_info, "fi_getinfo");
  libfabric.find(free_info, "fi_freeinfo");
  libfabric.find(duplicate_info, "fi_dupinfo");
  if (get_info == nullptr || free_info == nullptr || duplicate_info == nullptr) return {};

  Info* hints = duplicate_info(nullptr);  // an empty one
  if (hints == nullptr) return {};
  hints->capabilities = hmem;
  hints->mode = ~std::uint64_t{0};  // whatever the provider asks of its user
  if (hints->domain != nullptr)
    hints->domain->memory_registration_mode = mode_local | mode_virtual_address | mode_allocated |
                                              mode_provider_key | mode_endpoint | mode_hmem;
  Info* found = nullptr;
  const int code = get_info(api_version, nullptr, nullptr, 0, hints, &found);
  free_info(hints);
  if (code != 0 || found == nullptr) return {};
  auto names = names_in(found);
  free_info(found);
  return names;
}

}  // namespace capstan
