#include "transports/ofi/library.hpp"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "capstan/error.hpp"
#include "core/net/network.hpp"

namespace capstan::ofi {
namespace {

constexpr const char* file = "libfabric.so.1";
constexpr std::uint32_t api = FI_VERSION(1, 11);  // the oldest that has all that is used here

/// Settings that libfabric and what it loads read when they are loaded. The user's own win.
void prepare_environment() {
  ::setenv("IPATH_NO_BACKTRACE", "1", 0);  // PSM leaves the signal handlers of the program alone
  ::setenv("FI_UNIVERSE_SIZE", "64", 0);   // with the default, queues of verbs outgrow many devices
}

void* load() {
  prepare_environment();
  void* library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library) return library;
  throw SystemError(fmt::format("{} cannot be loaded: {}; install libfabric1", file, ::dlerror()));
}

template <class Function>
void resolve(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (!function) throw SystemError(fmt::format("{} lacks {}; install a newer one", file, name));
}

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

}  // namespace

Library::Library() {
  void* library = load();
  resolve(library, "fi_getinfo", getinfo_);
  resolve(library, "fi_freeinfo", freeinfo_);
  resolve(library, "fi_dupinfo", dupinfo_);
  resolve(library, "fi_fabric", fabric_);
  resolve(library, "fi_strerror", strerror_);
  resolve(library, "fi_version", version_);
}

const Library& Library::get() {
  static const Library library;
  return library;
}

void FreeInfo::operator()(fi_info* info) const {
  Library::get().freeinfo_(info);
}

std::string Library::version() const {
  const std::uint32_t version = version_();
  return fmt::format("{}.{}", FI_MAJOR(version), FI_MINOR(version));
}

Info Library::query(const fi_info* hints) const {
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
  if (result == -FI_ENODATA) return nullptr;
  if (result != 0) throw SystemError(fmt::format("fi_getinfo failed: {}", text(result)));
  return Info{found};
}

fid_fabric* Library::open_fabric(const fi_info& info) const {
  fid_fabric* fabric = nullptr;
  const int result = fabric_(info.fabric_attr, &fabric, nullptr);
  if (result != 0) throw SystemError(fmt::format("fi_fabric failed: {}", text(result)));
  return fabric;
}

std::string Library::text(long error) const {
  return strerror_(static_cast<int>(error < 0 ? -error : error));
}

Candidate candidate_of(const fi_info& info) {
  Candidate candidate;
  candidate.provider = info.fabric_attr->prov_name;
  candidate.domain = info.domain_attr->name ? info.domain_attr->name : "";
  candidate.messages = (info.caps & FI_MSG) != 0;
  candidate.tagged = (info.caps & FI_TAGGED) != 0;
  candidate.remote_writes =
      (info.caps & FI_RMA) != 0 && (info.domain_attr->mr_mode & FI_MR_RAW) == 0;
  candidate.device_memory = (info.caps & FI_HMEM) != 0;
  if (info.nic && info.nic->link_attr) {
    candidate.gigabits = static_cast<double>(info.nic->link_attr->speed) / 1e9;
  }
  describe_address(info, candidate);
  return candidate;
}

namespace {

/// Marks those whose addresses may not be used.
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
  result.list = Library::get().query(nullptr);
  for (const fi_info* entry = result.list.get(); entry; entry = entry->next) {
    result.entries.push_back(entry);
    result.candidates.push_back(candidate_of(*entry));
  }
  keep_to(options.interface, result.candidates);
  result.choice = choose_provider(result.candidates, options);
  return result;
}

}  // namespace capstan::ofi
