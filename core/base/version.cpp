// SPDX-License-Identifier: Apache-2.0
#include "capstan/version.hpp"

#define CAPSTAN_TEXT_OF(number) #number
#define CAPSTAN_TEXT(number) CAPSTAN_TEXT_OF(number)

namespace capstan {

std::string_view version() {
  return CAPSTAN_TEXT(CAPSTAN_VERSION_MAJOR) "." CAPSTAN_TEXT(
      CAPSTAN_VERSION_MINOR) "." CAPSTAN_TEXT(CAPSTAN_VERSION_PATCH);
}

}  // namespace capstan
