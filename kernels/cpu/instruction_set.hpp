// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace capstan::kernels {

/// The vendor's name of an instruction set: "AVX-512" for "AVX3". Names that Highway shares with
/// vendors stay as they are.
std::string_view instruction_set(std::string_view highway_name);

}  // namespace capstan::kernels
