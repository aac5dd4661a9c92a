// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "capstan/export.hpp"

/// The version of these headers. The build takes its own from here.
#define CAPSTAN_VERSION_MAJOR 0
#define CAPSTAN_VERSION_MINOR 2
#define CAPSTAN_VERSION_PATCH 0

namespace CAPSTAN_EXPORT capstan {

/// The version of the library that the program runs with: "0.2.0". A shared library may be another
/// one than that of the headers. Thread-safe.
std::string_view version();

}  // namespace capstan
