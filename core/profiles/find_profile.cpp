// SPDX-License-Identifier: Apache-2.0
#include "core/profiles/find_profile.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "capstan/error.hpp"
#include "core/platform/net/log.hpp"
#include "core/platform/net/text_of_file.hpp"

namespace capstan {
namespace {

std::string variable(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}

constexpr std::string_view profiles = "profiles";

std::string below(const std::string& folder, std::string_view kind, const Fingerprint& machine) {
  return fmt::format("{}/capstan/{}/{}.json", folder, kind, machine.id);
}

/// The places in which a profile may lie, the first one first.
std::vector<std::string> usual_places(const Fingerprint& machine) {
  std::vector<std::string> places;
  if (const std::string own = user_profile_path(machine); !own.empty()) places.push_back(own);
  std::istringstream folders{variable("XDG_CONFIG_DIRS", "/etc/xdg")};
  for (std::string folder; std::getline(folders, folder, ':');)
    if (!folder.empty()) places.push_back(below(folder, profiles, machine));
  return places;
}

/// The text of the file, if its profile counts here.
ProfileText checked(const std::string& file, const Fingerprint& machine) {
  std::string text = read_profile_file(file);
  const std::string reason = mismatch(parse_profile(text, file), machine);
  if (reason.empty()) return {file, std::move(text)};
  log().warn("the profile {} is ignored: {}", file, reason);
  return {};
}

}  // namespace

std::string user_file(const Fingerprint& machine, std::string_view kind) {
  const std::string home = variable("HOME", "");
  const std::string folder = variable("XDG_CONFIG_HOME", home.empty() ? "" : home + "/.config");
  return folder.empty() ? "" : below(folder, kind, machine);
}

std::string user_profile_path(const Fingerprint& machine) {
  return user_file(machine, profiles);
}

std::string read_profile_file(const std::string& file) {
  constexpr Bytes longest{std::uint64_t{64} << 20};
  try {
    return text_of_file(file, longest);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format(
        "{:.500}: the profile cannot be read ({}); name another file, or none, by CAPSTAN_PROFILE",
        file, error.what()));
  }
}

ProfileText find_profile(const std::string& named, const Machine& machine) {
  if (named == "none") return {};
  const Fingerprint fingerprint = Fingerprint::of(machine);
  if (!named.empty()) return checked(named, fingerprint);
  for (const std::string& place : usual_places(fingerprint)) {
    std::error_code missing;
    if (!std::filesystem::exists(place, missing)) continue;
    try {
      return checked(place, fingerprint);
    } catch (const InvalidArgument& error) {
      log().warn("a profile is ignored: {}", error.what());
      return {};
    }
  }
  return {};
}

ProfileContent content_of(const ProfileText& profile, const std::string& network) {
  if (profile.text.empty()) return {};
  const Profile known = parse_profile(profile.text, profile.file);
  const auto part = [&](std::optional<DeviceLink> devices) {
    ProfilePart part{nullptr, model_scales(known, network, devices)};
    MeasuredTimes times = measured_times(known, network, profile.file, devices);
    if (!times.empty()) part.measured = std::make_shared<const MeasuredTimes>(std::move(times));
    return part;
  };
  ProfileContent content{.host = part({})};
  for (const DeviceLink link : all_device_links)
    content.devices[static_cast<std::size_t>(link)] = part(link);
  return content;
}

}  // namespace capstan
