// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace capstan::perf {

/// Memory accesses whose speed bounds that of every kernel.
enum class Access { read, write, streaming_write, copy, streaming_copy };

/// Moves `bytes` bytes once with the widest vectors of this CPU; both pointers start a cache line
/// and `bytes` is a multiple of 4096. `from` is read in several streams at once, as kernels with
/// several sources do. A pointer that the access does not need may be nullptr.
void touch(Access access, void* to, const void* from, std::size_t bytes);

/// Bytes that cross between core and memory when `bytes` are touched: twice as many for copies.
std::size_t traffic(Access access, std::size_t bytes);

}  // namespace capstan::perf
