#pragma once

#include <memory>

#include "bindings/nccl/comm.hpp"

namespace capstan::nccl {

/// What a config asks for, over `options`; settings that it names go into `settings`. Null stands
/// for no wishes. Throws InvalidArgument for what cannot be.
Comm::Options options_of(const ncclConfig_t* config, Comm::Options options, Settings& settings);

/// Of a communicator of this thread: on the device that it has chosen.
Comm::Options options_here();

UniqueId id_of(const ncclUniqueId& id);
/// An id by which ranks of other hosts join, too.
ncclUniqueId create_id();

/// Makes one communicator; throws what keeps it from being made, unless calls do not block.
ncclResult_t make(ncclComm_t* handle, const std::shared_ptr<Comm>& comm, Comm::Make make);

}  // namespace capstan::nccl
