// SPDX-License-Identifier: Apache-2.0
#include "tests/processes/processes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "tests/temporary_folder.hpp"

namespace capstan {
namespace {

constexpr auto bound = std::chrono::seconds{400};

/// Everything that a test starts can be told by this variable in its environment.
constexpr const char* mark = "TESTED_BY";

/// Open MPI's launchers that start at once may fail over the folder of sessions that they share.
const std::string& folder_of_sessions() {
  static const test::TemporaryFolder folder;
  return folder.path().native();
}

[[noreturn]] void become(const std::vector<std::string>& command,
                         const std::vector<std::pair<std::string, std::string>>& environment,
                         int output) {
  ::setpgid(0, 0);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::close(output);
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  ::setenv(mark, std::to_string(::getppid()).c_str(), 1);
  ::setenv("OMPI_MCA_orte_tmpdir_base", folder_of_sessions().c_str(), 1);
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  ::_exit(127);
}

CommandResult run_once(const std::vector<std::string>& command,
                       const std::vector<std::pair<std::string, std::string>>& environment) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  folder_of_sessions();  // of this process, which removes it
  const pid_t pid = ::fork();
  if (pid == 0) become(command, environment, ends[1]);
  ::close(ends[1]);

  CommandResult result;
  const auto give_up = std::chrono::steady_clock::now() + bound;
  bool killed = false;
  while (true) {
    pollfd readable{ends[0], POLLIN, 0};
    ::poll(&readable, 1, 500);
    char buffer[4096];
    if (readable.revents) {
      const ssize_t got = ::read(ends[0], buffer, sizeof buffer);
      if (got <= 0) break;
      result.output.append(buffer, static_cast<std::size_t>(got));
    }
    if (!killed && std::chrono::steady_clock::now() > give_up) {
      killed = true;
      ADD_FAILURE() << "took too long: " << command.front() << "\n" << result.output;
      ::kill(-pid, SIGKILL);
    }
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  result.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

/// The leak sanitizer's own thread died while it looked at a process that was ending, which tells
/// nothing of that process.
bool leak_sanitizer_crashed(const CommandResult& result) {
  return occurrences(result.output, "LeakSanitizer has encountered a fatal error") > 0 ||
         occurrences(result.output, "Tracer caught signal") > 0;
}

}  // namespace

CommandResult run_command(const std::vector<std::string>& command,
                          const std::vector<std::pair<std::string, std::string>>& environment) {
  CommandResult result = run_once(command, environment);
  for (int again = 0; again < 2 && leak_sanitizer_crashed(result); ++again)
    result = run_once(command, environment);
  return result;
}

namespace {

bool is_marked(const std::filesystem::path& process) {
  std::ifstream environment{process / "environ", std::ios::binary};
  const std::string wanted = fmt::format("{}={}", mark, ::getpid());
  for (std::string entry; std::getline(environment, entry, '\0');)
    if (entry == wanted) return true;
  return false;
}

std::string describe(const std::filesystem::path& process) {
  std::ifstream file{process / "cmdline", std::ios::binary};
  std::string command{std::istreambuf_iterator<char>{file}, {}};
  std::ranges::replace(command, '\0', ' ');
  return fmt::format("process {}: {}", process.filename().string(), command);
}

/// The traces at this moment. A socket, a mapping or a memfd lives as long as its processes do.
std::set<std::string> traces() {
  namespace fs = std::filesystem;
  std::set<std::string> found;
  for (const auto& entry : fs::directory_iterator{"/dev/shm"})
    if (entry.path().filename().string().find("capstan") != std::string::npos)
      found.insert(entry.path());
  for (const auto& entry : fs::directory_iterator{"/proc"})
    if (is_marked(entry.path())) found.insert(describe(entry.path()));
  return found;
}

}  // namespace

std::vector<std::string> leftovers(std::chrono::seconds patience) {
  // Processes that are about to end do so by themselves; those that were left behind stay.
  std::set<std::string> left = traces();
  const auto give_up = std::chrono::steady_clock::now() + patience;
  while (!left.empty() && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
    const auto now = traces();
    std::erase_if(left, [&](const std::string& trace) { return !now.contains(trace); });
  }
  return {left.begin(), left.end()};
}

}  // namespace capstan
