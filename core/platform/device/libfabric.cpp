// SPDX-License-Identifier: Apache-2.0
#include "core/platform/device/libfabric.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <rdma/fi_errno.h>

#include <utility>

#include "capstan/error.hpp"
#include "core/platform/device/libfabric_environment.hpp"

namespace capstan {
namespace {

constexpr const char* file = "libfabric.so.1";
constexpr std::uint32_t api = FI_VERSION(1, 11);  // the oldest with all functions used here

std::shared_ptr<SharedLibrary> load() {
  prepare_libfabric_environment();
  if (auto library = system_loader().open({file})) return library;
  throw SystemError(fmt::format("{} cannot be loaded: {}; install libfabric1", file, ::dlerror()));
}

}  // namespace

template <class Function>
void Libfabric::resolve(const char* name, Function*& function) const {
  library_->find(function, name);
  if (!function) throw SystemError(fmt::format("{} lacks {}; install a newer one", file, name));
}

Libfabric::Libfabric(std::shared_ptr<SharedLibrary> library, bool keeps_registrations)
    : library_(std::move(library)), keeps_registrations_(keeps_registrations) {
  resolve("fi_getinfo", getinfo_);
  resolve("fi_freeinfo", freeinfo_);
  resolve("fi_dupinfo", dupinfo_);
  resolve("fi_fabric", fabric_);
  resolve("fi_strerror", strerror_);
  resolve("fi_version", version_);
}

const Libfabric& Libfabric::get() {
  static const auto& library = *new Libfabric{load(), !libfabric_cache_is_off()};
  return library;
}

std::string Libfabric::version() const {
  const std::uint32_t version = version_();
  return fmt::format("{}.{}", FI_MAJOR(version), FI_MINOR(version));
}

Libfabric::Info Libfabric::query(const fi_info* hints) const {
  Info every;
  if (!hints) {
    every = this->hints();
    every->mode = ~std::uint64_t{0};
    every->ep_attr->type = FI_EP_RDM;
    every->domain_attr->mode = ~std::uint64_t{0};
    every->domain_attr->mr_mode = ~(FI_MR_BASIC | FI_MR_SCALABLE);
    hints = every.get();
  }
  fi_info* found = nullptr;
  const int result = getinfo_(api, nullptr, nullptr, 0, hints, &found);
  if (result == -FI_ENODATA) return {};
  if (result != 0) throw SystemError(fmt::format("fi_getinfo failed: {}", text(result)));
  return {found, {freeinfo_}};
}

fid_fabric* Libfabric::open_fabric(const fi_info& info) const {
  fid_fabric* fabric = nullptr;
  const int result = fabric_(info.fabric_attr, &fabric, nullptr);
  if (result != 0) throw SystemError(fmt::format("fi_fabric failed: {}", text(result)));
  return fabric;
}

std::string Libfabric::text(long error) const {
  return strerror_(static_cast<int>(error < 0 ? -error : error));
}

}  // namespace capstan
