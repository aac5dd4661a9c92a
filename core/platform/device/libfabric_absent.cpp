// SPDX-License-Identifier: Apache-2.0

// Takes the place of libfabric_hmem.cpp in builds without libfabric's headers.

#include "capstan/error.hpp"
#include "core/platform/device/libfabric_hmem.hpp"

namespace capstan {

std::vector<std::string> hmem_providers(std::shared_ptr<SharedLibrary>) {
  throw SystemError(
      "this build of Capstan has no libfabric; install libfabric-dev, configure and build again");
}

}  // namespace capstan
