// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace capstan::cli {

/// The commit that the program was built from: "1a2b3c4d5e6f", with a + where files differed from
/// it. Empty where it was not built in a clone.
std::string_view build_commit();

}  // namespace capstan::cli
