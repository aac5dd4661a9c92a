// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "bindings/nccl/comm.hpp"

namespace capstan::nccl {

/// The options that a config asks for, on top of `options`; settings that the config names enter
/// `settings`. A null config changes nothing. Throws InvalidArgument for values that cannot be.
Comm::Options options_of(const ncclConfig_t* config, Comm::Options options, Settings& settings);

/// The options of a communicator of this thread: on the device that the thread has chosen.
Comm::Options options_here();

UniqueId id_of(const ncclUniqueId& id);
/// An id by which ranks of other hosts join, too.
ncclUniqueId create_id();

/// Makes one communicator; throws what keeps it from being made, unless calls do not block.
ncclResult_t make(ncclComm_t* handle, const std::shared_ptr<Comm>& comm, Comm::Make make);

}  // namespace capstan::nccl
