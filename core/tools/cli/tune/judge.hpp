// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace capstan::cli {

/// Prints how the model's choices do where the profiles in these files measured every candidate,
/// and with several files, how the first one's choices do in the others. Throws InvalidArgument for
/// bad files and those of other machines.
void judge_profiles(const std::vector<std::string>& files);

}  // namespace capstan::cli
