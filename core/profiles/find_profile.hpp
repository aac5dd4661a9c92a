// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/profiles/profile.hpp"

namespace capstan {

/// The text of a profile that counts on this machine, and where it lies. Both empty: there is none.
struct ProfileText {
  std::string file, text;
};

/// A file that the user keeps for a machine: capstan/KIND/ID.json in XDG_CONFIG_HOME or ~/.config.
/// Empty without a home.
std::string user_file(const Fingerprint& machine, std::string_view kind);

/// Where `capstan tune` writes the profile of a machine: the user's file of the kind "profiles".
std::string user_profile_path(const Fingerprint& machine);

/// Looks for a profile in the file `named`, or if that is empty in that of the user, then in
/// capstan/profiles/ID.json in each of XDG_CONFIG_DIRS or in /etc/xdg. `named` "none": no profile.
/// A profile of another version or machine is ignored, and a bad file of the user or the system,
/// too: the log says why. Throws InvalidArgument for a named file that is missing or bad.
ProfileText find_profile(const std::string& named, const Machine& machine);

/// The part of a profile that is about calls in one kind of memory.
struct ProfilePart {
  std::shared_ptr<const MeasuredTimes> measured{};  ///< null: no cells
  ModelScales scales{};
};

/// The contents of a profile for worlds with one network between hosts.
struct ProfileContent {
  ProfilePart host{};  ///< of calls in memory of the host
  std::array<ProfilePart, all_device_links.size()> devices{};

  /// For calls in memory of devices with such links; none: of the host.
  const ProfilePart& part(std::optional<DeviceLink> link) const {
    return link ? devices[static_cast<std::size_t>(*link)] : host;
  }
};

/// The contents of a profile's text; nothing where there is none. Throws InvalidArgument.
ProfileContent content_of(const ProfileText& profile, const std::string& network);

/// The text of a file. Throws InvalidArgument.
std::string read_profile_file(const std::string& file);

}  // namespace capstan
