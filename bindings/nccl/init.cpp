// SPDX-License-Identifier: Apache-2.0

// How communicators are made and freed.

#include "bindings/nccl/init.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "bindings/nccl/comm.hpp"
#include "bindings/nccl/cuda.hpp"
#include "bindings/nccl/group.hpp"
#include "bindings/nccl/result.hpp"

namespace capstan::nccl {
namespace {

/// Where other hosts reach this process: the first interface that is up, or the one that
/// NCCL_SOCKET_IFNAME begins with. This host alone where there is none.
std::string own_address() {
  const char* const wanted = std::getenv("NCCL_SOCKET_IFNAME");
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return "127.0.0.1";
  std::string found = "127.0.0.1";
  for (const ifaddrs* one = all; one; one = one->ifa_next) {
    if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET) continue;
    if ((one->ifa_flags & IFF_UP) == 0) continue;
    const std::string_view name = one->ifa_name;
    const bool fits = wanted ? name.starts_with(wanted) : (one->ifa_flags & IFF_LOOPBACK) == 0;
    if (!fits) continue;
    char text[INET_ADDRSTRLEN];
    const auto* address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
    found = ::inet_ntop(AF_INET, &address->sin_addr, text, sizeof text);
    break;
  }
  ::freeifaddrs(all);
  return found;
}

/// Fields that an older header does not have are left out.
template <class T>
bool has(const ncclConfig_t& config, T ncclConfig_t::* field) {
  const auto* const end = reinterpret_cast<const std::byte*>(&(config.*field) + 1);
  return end <= reinterpret_cast<const std::byte*>(&config) + config.size;
}

bool flag(int value, const char* name, bool otherwise) {
  if (value == NCCL_CONFIG_UNDEF_INT) return otherwise;
  if (value != 0 && value != 1)
    throw InvalidArgument(fmt::format("config: {} is {}, not 0 or 1", name, value));
  return value == 1;
}

/// The transport that NCCL's name of a network stands for.
Network network_named(const std::string& name) {
  if (name == "Socket") return Network::tcp;
  if (name == "IB") return Network::verbs;
  if (name == "OFI" || name == "AWS Libfabric") return Network::ofi;
  throw InvalidArgument(fmt::format("config: netName is '{}'; there are Socket, IB and OFI", name));
}

}  // namespace

Comm::Options options_of(const ncclConfig_t* config, Comm::Options options, Settings& settings) {
  if (!config) return options;
  if (config->magic != NCCL_API_MAGIC)
    throw InvalidArgument("config was not made by NCCL_CONFIG_INITIALIZER");
  if (has(*config, &ncclConfig_t::blocking))
    options.blocking = flag(config->blocking, "blocking", options.blocking);
  if (has(*config, &ncclConfig_t::netName) && config->netName)
    settings.network = network_named(config->netName);
  if (has(*config, &ncclConfig_t::commName) && config->commName) options.name = config->commName;
  return options;
}

Comm::Options options_here() {
  return {.device = std::max(current_device(), 0)};
}

UniqueId id_of(const ncclUniqueId& id) {
  UniqueId made;
  static_assert(sizeof made.bytes == sizeof id.internal);
  std::memcpy(made.bytes.data(), id.internal, sizeof id.internal);
  return made;
}

ncclResult_t make(ncclComm_t* handle, const std::shared_ptr<Comm>& comm, Comm::Make make) {
  const bool in_background = !comm->options().blocking;
  if (in_background) *handle = handle_of(comm);
  comm->open(std::move(make), in_background);
  if (in_background) return ncclInProgress;
  if (const auto failure = comm->failure()) std::rethrow_exception(failure);
  *handle = handle_of(comm);
  return ncclSuccess;
}

ncclUniqueId create_id() {
  ncclUniqueId id;
  const UniqueId made = create_unique_id(own_address());
  std::memcpy(id.internal, made.bytes.data(), sizeof id.internal);
  return id;
}

namespace {

ncclResult_t init(ncclComm_t* handle, int size, const ncclUniqueId& id, int rank,
                  const ncclConfig_t* config) {
  if (!handle) throw InvalidArgument("ncclCommInitRank: `comm` is null");
  if (size < 1 || rank < 0 || rank >= size)
    throw InvalidArgument(fmt::format("ncclCommInitRank: rank {} of {} ranks", rank, size));
  Settings settings = Settings::from_environment();
  const auto options = options_of(config, options_here(), settings);
  auto comm = std::make_shared<Comm>(rank, size, options);
  auto join = [unique = id_of(id), rank, size, settings] {
    return Communicator::join(unique, rank, size, settings);
  };
  return create([=] { return make(handle, comm, join); },
                options.blocking ? ncclSuccess : ncclInProgress);
}

ncclResult_t split(ncclComm_t parent, int colour, int key, ncclComm_t* handle,
                   const ncclConfig_t* config) {
  if (!handle) throw InvalidArgument("ncclCommSplit: `newcomm` is null");
  if (colour < 0 && colour != NCCL_SPLIT_NOCOLOR)
    throw InvalidArgument(fmt::format("ncclCommSplit: the colour is {}", colour));
  const auto from = comm_of(parent);
  Settings ignored;
  const auto options = options_of(config, from->options(), ignored);
  const auto make_group = [=] {
    from->flush();
    *handle = nullptr;
    auto made = from->world().split(colour, key);
    if (!made) return ncclSuccess;
    auto comm = std::make_shared<Comm>(made->rank(), made->size(), options);
    auto held = std::make_shared<Communicator>(std::move(*made));
    comm->open([held] { return std::move(*held); }, false, from->devices());
    *handle = handle_of(std::move(comm));
    return ncclSuccess;
  };
  return create(make_group, ncclSuccess);
}

ncclResult_t init_all(ncclComm_t* handles, int count, const int* devices) {
  if (!handles) throw InvalidArgument("ncclCommInitAll: `comm` is null");
  if (count < 1) throw InvalidArgument(fmt::format("ncclCommInitAll: {} devices", count));
  auto worlds = Communicator::local_world(count);
  Comm::Devices known{.has_streams = look_for_devices()};
  for (int rank = 1; devices && rank < count; ++rank)
    known.is_shared =
        known.is_shared || std::find(devices, devices + rank, devices[rank]) != devices + rank;
  for (int rank = 0; rank < count; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    auto comm = std::make_shared<Comm>(rank, count,
                                       Comm::Options{.device = devices ? devices[rank] : rank});
    comm->open([&] { return std::move(worlds[index]); }, false, known);
    handles[rank] = handle_of(std::move(comm));
  }
  return ncclSuccess;
}

/// Frees what belongs to this rank alone; waits for nobody.
ncclResult_t destroy(ncclComm_t handle) {
  release(handle);
  return ncclSuccess;
}

ncclResult_t abort(ncclComm_t handle) {
  const auto comm = release(handle);
  comm->abort(fmt::format("rank {} called ncclCommAbort", comm->rank()));
  return ncclSuccess;
}

ncclResult_t async_error(ncclComm_t handle, ncclResult_t* error) {
  if (!error) throw InvalidArgument("ncclCommGetAsyncError: `asyncError` is null");
  const auto comm = comm_of(handle);
  *error = comm->state();
  if (*error == ncclInProgress) return ncclSuccess;
  if (const auto failure = comm->failure()) *error = result_of(failure);
  return ncclSuccess;
}

template <class Get>
ncclResult_t get(ncclComm_t handle, int* to, Get value) {
  return guarded([&] {
    const auto comm = comm_of(handle);
    if (!to) throw InvalidArgument("the place for the result is null");
    *to = value(*comm);
    return ncclSuccess;
  });
}

}  // namespace
}  // namespace capstan::nccl

using namespace capstan::nccl;

extern "C" {

ncclResult_t pncclGetVersion(int* version) {
  if (!version) return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t pncclGetUniqueId(ncclUniqueId* id) {
  return guarded([&] {
    if (!id) throw capstan::InvalidArgument("ncclGetUniqueId: `uniqueId` is null");
    *id = create_id();
    return ncclSuccess;
  });
}

ncclResult_t pncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank) {
  return guarded([&] { return init(comm, nranks, id, rank, nullptr); });
}

ncclResult_t pncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank,
                                     ncclConfig_t* config) {
  return guarded([&] { return init(comm, nranks, id, rank, config); });
}

ncclResult_t pncclCommInitRankScalable(ncclComm_t* comm, int nranks, int rank, int ids,
                                       ncclUniqueId* list, ncclConfig_t* config) {
  return guarded([&] {
    if (ids < 1 || !list) throw capstan::InvalidArgument("ncclCommInitRankScalable: no unique id");
    return init(comm, nranks, list[0], rank, config);
  });
}

ncclResult_t pncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  return guarded([&] { return init_all(comms, count, devices); });
}

ncclResult_t pncclCommFinalize(ncclComm_t handle) {
  return guarded([&] { return comm_of(handle)->finalize(); });
}

ncclResult_t pncclCommDestroy(ncclComm_t comm) {
  return guarded([&] { return destroy(comm); });
}

ncclResult_t pncclCommAbort(ncclComm_t comm) {
  return guarded([&] { return abort(comm); });
}

ncclResult_t pncclCommRevoke(ncclComm_t handle, int flags) {
  return guarded([&] {
    if (flags != NCCL_REVOKE_DEFAULT) throw capstan::InvalidArgument("ncclCommRevoke: flags");
    const auto comm = comm_of(handle);
    comm->abort(fmt::format("rank {} called ncclCommRevoke", comm->rank()));
    return ncclSuccess;
  });
}

ncclResult_t pncclCommSplit(ncclComm_t comm, int colour, int key, ncclComm_t* made,
                            ncclConfig_t* config) {
  return guarded([&] { return split(comm, colour, key, made, config); });
}

ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return guarded([&] { return async_error(comm, error); });
}

ncclResult_t pncclCommCount(const ncclComm_t comm, int* count) {
  return get(comm, count, [](const Comm& c) { return c.size(); });
}

ncclResult_t pncclCommUserRank(const ncclComm_t comm, int* rank) {
  return get(comm, rank, [](const Comm& c) { return c.rank(); });
}

ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int* device) {
  return get(comm, device, [](const Comm& c) { return c.options().device; });
}

void pncclResetDebugInit() {}
// NVIDIA's library exports it, and its header does not declare it.
void ncclResetDebugInitInternal();
void pncclResetDebugInitInternal() {}
}

CAPSTAN_NCCL_EXPORT(GetVersion);
CAPSTAN_NCCL_EXPORT(GetUniqueId);
CAPSTAN_NCCL_EXPORT(CommInitRank);
CAPSTAN_NCCL_EXPORT(CommInitRankConfig);
CAPSTAN_NCCL_EXPORT(CommInitRankScalable);
CAPSTAN_NCCL_EXPORT(CommInitAll);
CAPSTAN_NCCL_EXPORT(CommFinalize);
CAPSTAN_NCCL_EXPORT(CommDestroy);
CAPSTAN_NCCL_EXPORT(CommAbort);
CAPSTAN_NCCL_EXPORT(CommRevoke);
CAPSTAN_NCCL_EXPORT(CommSplit);
CAPSTAN_NCCL_EXPORT(CommGetAsyncError);
CAPSTAN_NCCL_EXPORT(CommCount);
CAPSTAN_NCCL_EXPORT(CommUserRank);
CAPSTAN_NCCL_EXPORT(CommCuDevice);
CAPSTAN_NCCL_EXPORT(ResetDebugInit);
CAPSTAN_NCCL_EXPORT(ResetDebugInitInternal);
