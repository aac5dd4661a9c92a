#pragma once

#include <string_view>

namespace capstan::kernels {

/// The maker's name of an instruction set that Highway names otherwise: "AVX-512" for "AVX3". Other
/// names stay as they are.
std::string_view instruction_set(std::string_view highway_name);

}  // namespace capstan::kernels
