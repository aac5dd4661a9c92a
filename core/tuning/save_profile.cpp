#include "core/tuning/save_profile.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>

#include "capstan/error.hpp"
#include "capstan/version.hpp"
#include "core/tuning/find_profile.hpp"

namespace capstan {

std::string utc_now() {
  const std::time_t time = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&time, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

Profile profile_to_extend(const std::string& file, const Fingerprint& machine, OtherProfile other) {
  const Profile empty{std::string{version()}, machine, {}};
  if (!std::filesystem::exists(file)) return empty;
  Profile known = parse_profile(read_profile_file(file), file);
  const std::string reason = mismatch(known, machine);
  if (reason.empty()) return known;
  if (other == OtherProfile::is_replaced) return empty;
  throw InvalidArgument(fmt::format("{}: {}; `capstan tune --restart` replaces it", file, reason));
}

void replace_cell(ProfileGroup& group, const MeasuredCell& cell) {
  std::erase_if(group.cells, [&](const MeasuredCell& each) {
    return each.collective == cell.collective && each.bytes == cell.bytes;
  });
  group.cells.push_back(cell);
}

void save_profile(const Profile& profile, const std::string& file) {
  const std::filesystem::path path{file};
  std::error_code failed;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), failed);
  // Of this process: another one may write the same profile.
  const std::string beside = fmt::format("{}.{}.part", file, ::getpid());
  std::ofstream stream{beside, std::ios::trunc};
  if (!(stream << to_json(profile)) || !stream.flush())
    throw SystemError(fmt::format("cannot write {}: name another file", beside));
  stream.close();
  std::filesystem::rename(beside, path, failed);
  if (failed)
    throw SystemError(
        fmt::format("cannot write {}: {}: name another file", file, failed.message()));
}

}  // namespace capstan
