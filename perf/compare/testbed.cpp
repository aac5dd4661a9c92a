// SPDX-License-Identifier: Apache-2.0
#include "perf/compare/testbed.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "capstan/error.hpp"
#include "capstan/settings.hpp"
#include "core/platform/net/network.hpp"
#include "core/tools/launcher/remote_shell.hpp"
#include "perf/compare/workers.hpp"

namespace capstan::perf {
namespace {

/// A script in a memfd. It is executed through /proc, so no file is left behind.
FileDescriptor in_memory(const std::string& script) {
  const FileDescriptor file{::memfd_create("capstan-rsh", MFD_CLOEXEC)};
  const auto size = static_cast<ssize_t>(script.size());
  if (!file.valid() || ::write(file.get(), script.data(), script.size()) != size)
    throw SystemError(fmt::format("cannot make a file in memory: {}", std::strerror(errno)));
  // A file that is open for writing cannot be executed: only the read-only descriptor stays open.
  return FileDescriptor{
      ::open(fmt::format("/proc/self/fd/{}", file.get()).c_str(), O_RDONLY | O_CLOEXEC)};
}

}  // namespace

TestBed::TestBed(const launcher::LaunchOptions& place) : place_(place) {
  if (!named()) return;
  const auto chosen = choose_address(Settings::from_environment().interface).address;
  interface_ = chosen.interface;
  address_ = chosen.text();
  rsh_ = in_memory(launcher::rsh_script(place_.agent, place_.capstan));
}

int TestBed::ranks_per_host() const {
  if (!named()) return ranks();
  return std::ranges::max_element(hosts(), {}, &launcher::HostSlots::ranks)->ranks;
}

std::vector<std::string> TestBed::own_launcher() const {
  std::vector<std::string> command{find_installed("bin/capstan"), "run"};
  if (named())
    command.insert(command.end(), {"--hosts", to_string(hosts()), "--agent", place_.agent,
                                   "--capstan", place_.capstan, "--directory", place_.directory});
  command.insert(command.end(),
                 {"-n", std::to_string(ranks()), "--bind", "none", "--no-tag", "--"});
  return command;
}

std::string TestBed::rsh() const {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), rsh_.get());
}

std::string TestBed::text() const {
  if (!named()) return "this host";
  return fmt::format("{} over {}", to_string(hosts()), interface_);
}

}  // namespace capstan::perf
