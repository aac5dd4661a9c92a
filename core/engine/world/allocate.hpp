// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/engine/run/engine.hpp"

namespace capstan::shared {

/// Memory of zeros for buffers, given back with the last copy of the pointer. All ranks of the
/// communicator call it, each with a size of its own; those that share a host see each other's.
/// Null for 0 bytes. Throws LimitReached on every rank when one of them cannot have its memory, and
/// the errors of calls.
std::shared_ptr<std::byte> allocate(Engine& engine, Bytes size);

}  // namespace capstan::shared
