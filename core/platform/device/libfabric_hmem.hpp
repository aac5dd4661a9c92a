// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/platform/net/shared_library.hpp"

namespace capstan {

/// The network providers of libfabric that take memory of devices (FI_HMEM), each named once.
/// Throws SystemError when the library, or this build of Capstan, cannot tell.
std::vector<std::string> hmem_providers(std::shared_ptr<SharedLibrary> libfabric);

}  // namespace capstan
