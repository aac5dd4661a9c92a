// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "algorithms/registry.hpp"
#include "core/schedule/lowering/protocol.hpp"

namespace capstan {

/// The largest staging buffer that any rank needs for a block of this shape, or a little more where
/// there are many ranks.
Elements largest_staging(const Algorithm& algorithm, Protocol protocol, const Hosts& hosts,
                         const Shape& shape);

}  // namespace capstan
