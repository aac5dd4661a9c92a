// SPDX-License-Identifier: Apache-2.0
#include "tests/processes/soak/testbed.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "core/platform/net/file_descriptor.hpp"

namespace capstan::soak {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (value && *value) return value;
  throw std::runtime_error{fmt::format("{} is not set: scripts/soak sets it", name)};
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream{text};
  return {std::istream_iterator<std::string>{stream}, {}};
}

void run(const std::string& command) {
  std::vector<std::string> parts = words(command);
  std::vector<char*> argv;
  for (std::string& part : parts) argv.push_back(part.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  int status = 0;
  if (::posix_spawnp(&pid, argv[0], nullptr, nullptr, argv.data(), environ) != 0 ||
      ::waitpid(pid, &status, 0) != pid || status != 0)
    throw std::runtime_error{"failed: " + command};
}

std::string path_of(const std::string& name) {
  return "/var/run/netns/" + name;
}

/// Which process has something to do with one of these namespaces.
std::vector<std::string> processes_in(const std::map<ino_t, std::string>& spaces) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator{"/proc"}) {
    struct stat space{};
    if (::stat((entry.path() / "ns/net").c_str(), &space) != 0) continue;
    const auto host = spaces.find(space.st_ino);
    if (host == spaces.end()) continue;
    std::string name;
    std::getline(std::ifstream{entry.path() / "comm"}, name);
    found.push_back(
        fmt::format("process {} ({}) on {}", entry.path().filename().string(), name, host->second));
  }
  return found;
}

/// The lines of a table of sockets which have an owner, from a thread in the namespace.
void list_sockets(const std::string& host, std::vector<std::string>& found) {
  constexpr std::pair<const char*, std::size_t> tables[] = {
      {"tcp", 9}, {"tcp6", 9}, {"udp", 9}, {"udp6", 9}, {"unix", 6}};
  for (const auto& [table, inode] : tables) {
    std::ifstream file{fmt::format("/proc/thread-self/net/{}", table)};
    std::string line;
    for (std::getline(file, line); std::getline(file, line);)
      if (const auto fields = words(line); fields.size() > inode && fields[inode] != "0")
        found.push_back(fmt::format("{} socket on {}: {}", table, host, line));
  }
}

void list_sockets_in(const std::string& host, std::vector<std::string>& found) {
  std::thread{[&] {
    const FileDescriptor space{::open(path_of(host).c_str(), O_RDONLY | O_CLOEXEC)};
    if (::setns(space.get(), CLONE_NEWNET) == 0)
      list_sockets(host, found);
    else
      found.push_back("cannot look into " + host);
  }}.join();
}

}  // namespace

Testbed Testbed::of_environment() {
  Testbed testbed;
  testbed.names_ = words(variable("BED_HOSTS"));
  testbed.addresses_ = words(variable("BED_IPV4"));
  return testbed;
}

std::vector<std::string> Testbed::prefix(int host) const {
  std::vector<std::string> command = words(variable("BED_EXEC"));
  command.push_back(names_[at(host)]);
  return command;
}

std::string Testbed::network_switch() const {
  return names_[0].substr(0, names_[0].rfind('-')) + "-switch";
}

void Testbed::set_cable(int host, const std::string& state) const {
  run(fmt::format("ip -n {} link set port{}.0 {}", network_switch(), host, state));
}

void Testbed::limit_rate(int host, std::uint32_t kbit) const {
  // All that waits is kept: a slow cable loses nothing.
  const auto rule = fmt::format("root tbf rate {}kbit burst 2kb limit 64mb", kbit);
  run(fmt::format("tc -n {} qdisc add dev eth0 {}", names_[at(host)], rule));
  run(fmt::format("tc -n {} qdisc add dev port{}.0 {}", network_switch(), host, rule));
}

void Testbed::unlimit_rate(int host) const {
  run(fmt::format("tc -n {} qdisc del dev eth0 root", names_[at(host)]));
  run(fmt::format("tc -n {} qdisc del dev port{}.0 root", network_switch(), host));
}

std::vector<std::string> Testbed::leftovers() const {
  std::map<ino_t, std::string> spaces;
  struct stat space{};
  for (const std::string& name : names_)
    if (::stat(path_of(name).c_str(), &space) == 0) spaces.emplace(space.st_ino, name);
  std::vector<std::string> found = processes_in(spaces);
  for (const std::string& name : names_) list_sockets_in(name, found);
  for (const auto& entry : fs::directory_iterator{"/dev/shm"})
    if (entry.path().filename().string().find("capstan") != std::string::npos)
      found.push_back(entry.path());
  return found;
}

}  // namespace capstan::soak
