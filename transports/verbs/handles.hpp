// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <memory>
#include <string_view>

#include "core/platform/net/system_call.hpp"
#include "transports/verbs/library.hpp"

namespace capstan::verbs {

/// Calls a function of the library, which made the object, and so is loaded.
template <auto destroy>
struct Destroyer {
  template <class Object>
  void operator()(Object* object) const {
    (library().*destroy)(object);
  }
};

/// Objects of libibverbs, destroyed with their owner. An object must outlive those made from it.
using Context = std::unique_ptr<ibv_context, Destroyer<&Library::close_device>>;
using ProtectionDomain = std::unique_ptr<ibv_pd, Destroyer<&Library::dealloc_pd>>;
using CompletionChannel =
    std::unique_ptr<ibv_comp_channel, Destroyer<&Library::destroy_comp_channel>>;
using CompletionQueue = std::unique_ptr<ibv_cq, Destroyer<&Library::destroy_cq>>;
using SharedReceiveQueue = std::unique_ptr<ibv_srq, Destroyer<&Library::destroy_srq>>;
using QueuePair = std::unique_ptr<ibv_qp, Destroyer<&Library::destroy_qp>>;
using AddressHandle = std::unique_ptr<ibv_ah, Destroyer<&Library::destroy_ah>>;
using MemoryRegion = std::unique_ptr<ibv_mr, Destroyer<&Library::dereg_mr>>;

/// Returns `object`; throws SystemError if it is null.
template <class Object>
Object* made(Object* object, std::string_view call, std::string_view remedy = {}) {
  if (!object) throw_errno(call, remedy);
  return object;
}

/// For calls that return 0 or an error number. Throws SystemError.
inline void require_success(int error, std::string_view call, std::string_view remedy = {}) {
  if (error == 0) return;
  if (error > 0) errno = error;
  throw_errno(call, remedy);
}

}  // namespace capstan::verbs
