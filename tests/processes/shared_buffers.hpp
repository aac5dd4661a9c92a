// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "capstan/communicator.hpp"

namespace capstan {

/// Runs a rank of the tests of Communicator::allocate; 0 if all was right.
int use_shared_buffers(Communicator& world, std::string_view what);

/// Whether it is to end with an error.
bool fails_on_purpose(std::string_view what);

}  // namespace capstan
