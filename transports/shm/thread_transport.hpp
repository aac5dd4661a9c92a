#pragma once

#include <memory>
#include <vector>

#include "transports/transport.hpp"

namespace capstan {

/// Transports for `ranks` ranks that are threads of this process, entry r for rank r, each with a
/// segment of `segment` bytes. Memory is reserved, but not used before it is touched, and is freed
/// with the last of them. They are connected from the start; connect() and address() do nothing.
/// With `bells` they have descriptors. Throws InvalidArgument and SystemError.
std::vector<std::unique_ptr<Transport>> make_thread_transports(int ranks, Bytes segment,
                                                               bool bells = false);

}  // namespace capstan
