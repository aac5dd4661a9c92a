// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/ps/stacks.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <sstream>
#include <vector>

#include "capstan/deadline.hpp"
#include "core/platform/net/log.hpp"
#include "core/tools/launcher/child.hpp"

namespace capstan::cli {
namespace {

using Command = std::vector<std::string>;

constexpr std::chrono::seconds longest{20};

bool is_python(int process) {
  std::error_code gone;
  const auto program = std::filesystem::read_symlink(fmt::format("/proc/{}/exe", process), gone);
  return program.filename().string().starts_with("python");
}

/// In the order in which they are tried.
std::vector<Command> commands_for(int process) {
  const std::string number = fmt::to_string(process);
  std::vector<Command> commands;
  if (is_python(process)) commands.push_back({"py-spy", "dump", "--pid", number});
  commands.push_back({"eu-stack", "-p", number});
  commands.push_back({"gdb", "-nx", "-batch", "-p", number, "-ex", "thread apply all bt"});
  return commands;
}

/// False when the other end has been closed.
bool take_what_is_there(int from, std::string& into) {
  char some[4096];
  const ssize_t got = ::read(from, some, sizeof some);
  if (got > 0) into.append(some, static_cast<std::size_t>(got));
  return got > 0 || (got < 0 && errno == EINTR);
}

/// A command's standard output. The command is ended when it takes too long.
std::string output_within_limit(const Command& command) {
  const launcher::Child child =
      launcher::start_child({.command = command, .environment = {}, .cpus = {}});
  const Deadline deadline = Deadline::in(longest);
  std::string text, errors;
  bool writes = true, complains = true;
  while (writes && !deadline.expired()) {
    pollfd ends[] = {{child.output.get(), POLLIN, 0},
                     {complains ? child.errors.get() : -1, POLLIN, 0}};
    constexpr int between_looks = 100;  // ms
    if (::poll(ends, 2, between_looks) <= 0) continue;
    if (ends[1].revents != 0) complains = take_what_is_there(ends[1].fd, errors);
    if (ends[0].revents != 0) writes = take_what_is_there(ends[0].fd, text);
  }
  if (writes) ::kill(child.pid, SIGKILL);  // what it traces continues
  while (::waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return text;
}

/// The frames, and what names their threads, without what a debugger says of itself.
std::string frames_in(const std::string& output) {
  std::istringstream lines{output};
  std::string frames;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with('#') || line.starts_with("    ") || line.starts_with("Thread ") ||
        line.starts_with("TID "))
      frames += printable(line) + "\n";  // programs name their threads
  return frames;
}

}  // namespace

Stacks stacks_of(int process) {
  std::string tried;
  for (const Command& command : commands_for(process)) {
    const std::string& name = command.front();
    try {
      if (std::string frames = frames_in(output_within_limit(command)); !frames.empty())
        return {name, std::move(frames)};
      tried += fmt::format("{}{} could not read them", tried.empty() ? "" : ", ", name);
    } catch (const launcher::CannotRun&) {  // it is not there
    }
  }
  return {"", tried.empty() ? "install py-spy (of Python's programs), elfutils or gdb" : tried};
}

}  // namespace capstan::cli
