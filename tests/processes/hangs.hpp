// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "capstan/communicator.hpp"

namespace capstan {

/// Makes some calls, and then none that can end: because of rank 1, in the way that is named. Three
/// ranks or more. Throws std::invalid_argument for another name.
void hang(Communicator& world, const std::string& how);

}  // namespace capstan
