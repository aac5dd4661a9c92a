// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/ps/stacks.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <sstream>
#include <vector>

#include "core/base/printable.hpp"
#include "core/tools/cli/output_of.hpp"
#include "core/tools/launcher/child.hpp"

namespace capstan::cli {
namespace {

using Command = std::vector<std::string>;

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
      if (std::string frames = frames_in(output_of(command)); !frames.empty())
        return {name, std::move(frames)};
      tried += fmt::format("{}{} could not read them", tried.empty() ? "" : ", ", name);
    } catch (const launcher::CannotRun&) {  // it is not there
    }
  }
  return {"", tried.empty() ? "install py-spy (of Python's programs), elfutils or gdb" : tried};
}

}  // namespace capstan::cli
