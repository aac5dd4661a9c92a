// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "transports/transport.hpp"

namespace capstan {

/// Facilities of the kernel that the transport may use. The first two are detected; forbidding them
/// makes the transport use its fallbacks, as with a kernel or a container that lacks them.
struct ShmFacilities {
  bool pidfd = true;       // otherwise the end of start-up connections is watched
  bool membarrier = true;  // otherwise wake-ups can be lost, so no sleep is longer than 1 ms
  bool bell = false;  // gives it a descriptor; otherwise ranks sleep on a futex, which costs less
};

/// The transport of rank `self` of `ranks` processes on this host, with a segment of `segment`
/// bytes. The memory has no name in the file system and costs nothing before it is touched. The
/// kernel frees it when its last user ends, however it ends.
///
/// connect() must be called in the process that made the transport; a forked child may destroy
/// its copy but not use it. Throws InvalidArgument and SystemError.
std::unique_ptr<Transport> make_shm_transport(Rank self, int ranks, Bytes segment,
                                              ShmFacilities facilities = {});

}  // namespace capstan
