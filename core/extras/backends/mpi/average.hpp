// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "capstan/types.hpp"

namespace capstan {

/// Divides sums by a number of ranks: integers are truncated towards zero.
void divide(DataType type, void* sums, Elements count, int divisor);

}  // namespace capstan
