#pragma once

#include "core/memory/registration/address_range.hpp"

namespace capstan {

/// Whether all of `range` is mapped, and by nothing but private anonymous mappings (what malloc and
/// stacks use). Reads /proc/self/maps; false when that cannot be read.
bool is_private_anonymous(AddressRange range);

}  // namespace capstan
