// SPDX-License-Identifier: Apache-2.0

// Communicators with fewer or more ranks than another one.

#include <fmt/format.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "bindings/nccl/group.hpp"
#include "bindings/nccl/init.hpp"
#include "bindings/nccl/result.hpp"

namespace capstan::nccl {
namespace {

/// With NCCL_SHRINK_ABORT, what is under way ends first, and the parent is of no use any more.
ncclResult_t shrink(ncclComm_t handle, std::span<const int> excluded, ncclComm_t* made,
                    const ncclConfig_t* config, int flags) {
  const auto parent = comm_of(handle);
  if (!made) throw InvalidArgument("ncclCommShrink: `newcomm` is null");
  if (flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT)
    throw InvalidArgument(fmt::format("ncclCommShrink: flags {}", flags));
  const bool aborts = flags == NCCL_SHRINK_ABORT;
  Settings ignored;
  const auto options = options_of(config, parent->options(), ignored);
  const ShrinkOptions what{.exclude = {excluded.begin(), excluded.end()}};
  const auto make_rest = [=] {
    *made = nullptr;
    if (aborts)
      parent->abort(fmt::format("rank {} called ncclCommShrink", parent->rank()));
    else
      parent->flush();
    auto rest = std::make_shared<Communicator>(parent->world_after_failure().shrink(what));
    auto comm = std::make_shared<Comm>(rest->rank(), rest->size(), options);
    comm->open([rest] { return std::move(*rest); }, false, parent->devices());
    *made = handle_of(std::move(comm));
    return ncclSuccess;
  };
  return create(make_rest, ncclSuccess);
}

ncclResult_t grow(ncclComm_t handle, int size, const ncclUniqueId* id, int rank, ncclComm_t* made,
                  const ncclConfig_t* config) {
  if (!made) throw InvalidArgument("ncclCommGrow: `newcomm` is null");
  const auto parent = handle ? comm_of(handle) : nullptr;
  if (parent ? size < parent->size() || rank != -1 : !id || rank < 0 || rank >= size)
    throw InvalidArgument(
        fmt::format("ncclCommGrow to {} ranks: ranks of the communicator pass rank -1, one of them "
                    "the id; new ranks "
                    "pass the id and a rank from the communicator's size on",
                    size));
  Settings settings = Settings::from_environment();
  const auto options = options_of(config, parent ? parent->options() : options_here(), settings);
  MeetingPlace place;
  if (id) place.id = id_of(*id);
  const auto make_all = [=]() -> Communicator {
    if (parent) return parent->world().grow(size - parent->size(), place);
    return Communicator::join_growing(place, settings, rank);
  };
  return create(
      [=] {
        if (parent) parent->flush();
        auto comm = std::make_shared<Comm>(parent ? parent->rank() : rank, size, options);
        return make(made, comm, make_all);
      },
      options.blocking ? ncclSuccess : ncclInProgress);
}

}  // namespace
}  // namespace capstan::nccl

using namespace capstan::nccl;

extern "C" {

ncclResult_t pncclCommShrink(ncclComm_t comm, int* excluded, int count, ncclComm_t* made,
                             ncclConfig_t* config, int flags) {
  return guarded([&] {
    if (count < 0 || (count > 0 && !excluded))
      throw capstan::InvalidArgument("ncclCommShrink: the list of excluded ranks is null");
    return shrink(comm, {excluded, static_cast<std::size_t>(count)}, made, config, flags);
  });
}

ncclResult_t pncclCommGrow(ncclComm_t comm, int size, const ncclUniqueId* id, int rank,
                           ncclComm_t* made, ncclConfig_t* config) {
  return guarded([&] { return grow(comm, size, id, rank, made, config); });
}

ncclResult_t pncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* id) {
  return guarded([&] {
    comm_of(comm);
    if (!id) throw capstan::InvalidArgument("ncclCommGetUniqueId: `uniqueId` is null");
    *id = create_id();
    return ncclSuccess;
  });
}
}

CAPSTAN_NCCL_EXPORT(CommShrink);
CAPSTAN_NCCL_EXPORT(CommGrow);
CAPSTAN_NCCL_EXPORT(CommGetUniqueId);
