#pragma once

#include <memory>

#include "transports/transport.hpp"

namespace capstan {

/// What the kernel may be asked for beyond shared memory itself. The first two are detected;
/// forbidding them behaves like a kernel or a container that lacks them, and makes the transport
/// use its fallbacks.
struct ShmFacilities {
  bool pidfd = true;       // otherwise start-up connections are kept, and their end is watched
  bool membarrier = true;  // otherwise no sleep is longer than 1 ms, as wake-ups can be lost
  bool bell = false;       // has a descriptor; otherwise it sleeps on memory, which costs less
};

/// The transport of rank `self` of `ranks` that are processes on this host, with a segment of
/// `segment` bytes. The memory has no name in the file system, costs nothing before it is touched,
/// and is freed by the kernel when its last user ends, however it ends. Peers can map it for
/// reading only.
///
/// connect() must be called in the process that made the transport; a child that it forks may drop
/// its copy but not use it. Throws InvalidArgument and SystemError.
std::unique_ptr<Transport> make_shm_transport(Rank self, int ranks, Bytes segment,
                                              ShmFacilities facilities = {});

}  // namespace capstan
