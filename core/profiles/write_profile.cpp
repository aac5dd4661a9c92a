// SPDX-License-Identifier: Apache-2.0
#include "core/profiles/write_profile.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

#include "capstan/deadline.hpp"
#include "capstan/error.hpp"
#include "capstan/version.hpp"
#include "core/platform/net/file_descriptor.hpp"
#include "core/profiles/find_profile.hpp"

namespace capstan {

using namespace std::chrono_literals;

std::string utc_now() {
  const std::time_t time = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&time, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

namespace {

namespace fs = std::filesystem;

/// The file itself, where `file` is a link to it.
fs::path target_of(const std::string& file) {
  std::error_code failed;
  const fs::path path = fs::weakly_canonical(file, failed);
  return failed ? fs::path{file} : path;
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path{"."};
}

[[noreturn]] void refuse(const fs::path& file, int error) {
  throw SystemError(
      fmt::format("cannot write {}: {}: name another file", file.string(), std::strerror(error)));
}

/// Held by one thread of one process at a time, for all files of a folder.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& file) {
    const fs::path folder = folder_of(file);
    std::error_code failed;
    fs::create_directories(folder, failed);
    descriptor_ = FileDescriptor{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (!descriptor_.valid()) refuse(file, errno);
    const Deadline deadline = Deadline::in(10s);
    while (::flock(descriptor_.get(), LOCK_EX | LOCK_NB) != 0) {
      if ((errno != EWOULDBLOCK && errno != EINTR) || deadline.expired()) refuse(file, errno);
      std::this_thread::sleep_for(1ms);
    }
  }

 private:
  FileDescriptor descriptor_;
};

}  // namespace

Profile profile_to_extend(const std::string& file, const Fingerprint& machine, OtherProfile other) {
  const Profile empty{std::string{version()}, machine, {}};
  std::error_code missing;
  if (const auto size = fs::file_size(file, missing); missing || size == 0) {
    if (missing && missing != std::errc::no_such_file_or_directory)
      throw InvalidArgument(fmt::format("{}: {}: name another file", file, missing.message()));
    return empty;
  }
  Profile known = parse_profile(read_profile_file(file), file);
  const std::string reason = mismatch(known, machine);
  if (reason.empty()) return known;
  if (other == OtherProfile::is_replaced) return empty;
  throw InvalidArgument(fmt::format("{}: {}; `capstan tune --restart` replaces it", file, reason));
}

std::size_t add_to_profile(const std::string& file, const Fingerprint& machine, int ranks,
                           const std::vector<MeasuredCell>& cells, const std::string& state) {
  const FolderLock lock{target_of(file)};
  Profile profile = profile_to_extend(file, machine, OtherProfile::is_refused);
  MeasuredGroup& group = profile.group(ranks, 1, {});
  if (!group.under_load.empty()) return 0;
  std::size_t added = 0;
  for (const MeasuredCell& cell : cells) {
    const MeasuredCell* const known = group.find(cell.collective, cell.bytes);
    const bool better = !known || cell.decides() > known->decides();
    if (!better && known->ways.size() > cell.ways.size()) continue;
    added += group.put(cell);
  }
  if (added == 0) return 0;
  group.date = utc_now();
  group.command = fmt::format("{}, by the autotuner", program_invocation_short_name);
  group.commit.clear();
  group.machine = state;
  write_profile(profile, file);
  return added;
}

void add_model_to_profile(const std::string& file, const Fingerprint& machine,
                          const MeasuredGroup& group) {
  const FolderLock lock{target_of(file)};
  Profile profile = profile_to_extend(file, machine, OtherProfile::is_refused);
  MeasuredGroup& known = profile.group(group.ranks, group.hosts, group.network, group.devices);
  known.model = group.model;
  known.date = group.date;
  write_profile(profile, file);
}

void write_profile(const Profile& profile, const std::string& file) {
  const fs::path path = target_of(file);
  std::error_code failed;
  fs::create_directories(folder_of(path), failed);
  std::string beside = path.string() + ".XXXXXX";
  const FileDescriptor made{::mkostemp(beside.data(), O_CLOEXEC)};
  if (!made.valid()) refuse(path, errno);
  std::ofstream stream{beside, std::ios::trunc};
  stream << to_json(profile);
  stream.close();
  if (!stream || ::fchmod(made.get(), 0644) != 0 || ::rename(beside.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(beside.c_str());
    refuse(path, error);
  }
}

}  // namespace capstan
