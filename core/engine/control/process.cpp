// SPDX-License-Identifier: Apache-2.0
#include "core/engine/control/process.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <fstream>

#include "core/base/printable.hpp"
#include "core/platform/net/host_identity.hpp"

namespace capstan {
namespace {

std::string own_host() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string own_space() {
  return fmt::format("{}-{}", host_identity(), namespace_id("pid"));
}

}  // namespace

Process Process::own() {
  return {.host = own_host(), .id = ::getpid(), .space = own_space()};
}

std::string encode(const Process& process) {
  return fmt::format("{} {} {}", process.id, process.space, process.host);
}

Process decode_process(const std::string& text) {
  Process process;
  const auto space = text.find(' ');
  const auto host = text.find(' ', space == std::string::npos ? text.size() : space + 1);
  if (host == std::string::npos) return process;
  std::from_chars(text.data(), text.data() + space, process.id);
  process.space = text.substr(space + 1, host - space - 1);
  process.host = printable(text.substr(host + 1), 64);
  return process;
}

std::string to_string(const Process& process) {
  if (process.id <= 0) return "";
  return fmt::format("host {}, process {}", process.host, process.id);
}

bool is_stopped(const Process& process) {
  static const std::string& space = *new std::string{own_space()};
  if (process.id <= 0 || process.space != space) return false;
  std::string stat;
  std::getline(std::ifstream{fmt::format("/proc/{}/stat", process.id)}, stat);
  const auto name_end = stat.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= stat.size()) return false;
  const char state = stat[name_end + 2];
  return state == 'T' || state == 't';
}

}  // namespace capstan
