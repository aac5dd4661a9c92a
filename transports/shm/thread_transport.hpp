// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "transports/transport.hpp"

namespace capstan {

/// Transports of `ranks` threads of this process: entry r is the transport of rank r, each with a
/// segment of `segment` bytes. Memory costs nothing before it is touched and is freed with the last
/// transport. They are connected from the start: connect() and address() do nothing. With `bells`
/// they have descriptors. Throws InvalidArgument and SystemError.
std::vector<std::unique_ptr<Transport>> make_thread_transports(int ranks, Bytes segment,
                                                               bool bells = false);

}  // namespace capstan
