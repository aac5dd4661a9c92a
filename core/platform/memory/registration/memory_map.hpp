// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/platform/memory/registration/address_range.hpp"

namespace capstan {

/// Whether all of `range` is mapped, by private anonymous mappings alone (as malloc and stacks use
/// them). Reads /proc/self/maps; false when that is not readable.
bool is_private_anonymous(AddressRange range);

}  // namespace capstan
