// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/profiles/profile.hpp"

namespace capstan {

/// The time of day as profiles have it: 2026-11-25T06:00:00Z.
std::string utc_now();

/// The treatment of a profile of another machine or version.
enum class OtherProfile { is_refused, is_replaced };

/// The profile in a file; a new one for this machine and version if there is no file. Throws
/// InvalidArgument for files that are bad, or of another machine or version if that is refused.
Profile profile_to_extend(const std::string& file, const Fingerprint& machine, OtherProfile other);

/// Adds cells of processes on one host to the profile in a file, and returns how many. Cells of the
/// same calls with more ways stay unless they decide nothing, and so does all that was measured
/// under load. `state` says how the machine was. Other processes
/// and threads may do the same at the same time: each waits up to 10 s for its turn. Throws as
/// above.
std::size_t add_to_profile(const std::string& file, const Fingerprint& machine, int ranks,
                           const std::vector<MeasuredCell>& cells, const std::string& state = {});

/// Puts the model of a group into the profile in a file, whose cells stay. Throws as above.
void add_model_to_profile(const std::string& file, const Fingerprint& machine,
                          const MeasuredGroup& group);

/// Replaces the file at once, so that it is whole whenever the program ends. Makes the folders
/// above it. Throws SystemError.
void write_profile(const Profile& profile, const std::string& file);

}  // namespace capstan
