// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "capstan/quantity.hpp"
#include "core/platform/net/file_descriptor.hpp"
#include "transports/common/mapping.hpp"

namespace capstan::shm {

/// Memory of fixed size that can be handed to other processes as a descriptor. It has no name in
/// the file system; the kernel frees it with its last mapping and descriptor.
struct Memfd {
  FileDescriptor fd;
  Mapping mapping;  // readable and writable

  /// Zeros, backed by memory only where touched, and sealed against resizing, by which a peer could
  /// make accesses fault with SIGBUS. Throws SystemError.
  static Memfd create(Bytes size, Mapping::InChildren in_children = Mapping::InChildren::zeros);
};

/// Why a descriptor from a peer must not be mapped as `size` bytes of shared memory. Nothing if it
/// is safe: sealed against resizing, and of the right size.
std::optional<std::string> unsafe_to_map(int fd, Bytes size);

}  // namespace capstan::shm
