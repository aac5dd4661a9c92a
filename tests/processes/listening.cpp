// SPDX-License-Identifier: Apache-2.0
#include "tests/processes/listening.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

namespace capstan {
namespace {

using Fields = std::vector<std::string>;

/// The inodes of this process's sockets, as text.
std::set<std::string> own_sockets() {
  namespace fs = std::filesystem;
  std::set<std::string> inodes;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator{"/proc/self/fd"}) {
    const std::string target = fs::read_symlink(entry.path(), gone).string();
    constexpr std::string_view prefix = "socket:[";
    if (target.starts_with(prefix))
      inodes.insert(target.substr(prefix.size(), target.size() - prefix.size() - 1));
  }
  return inodes;
}

/// The lines of a table of the kernel that are of these sockets.
std::vector<Fields> lines_of(const std::set<std::string>& inodes, const char* table,
                             std::size_t inode_field) {
  std::ifstream file{fmt::format("/proc/self/net/{}", table)};
  std::vector<Fields> found;
  std::string line;
  for (std::getline(file, line); std::getline(file, line);) {
    std::istringstream words{line};
    Fields fields{std::istream_iterator<std::string>{words}, {}};
    if (fields.size() > inode_field && inodes.contains(fields[inode_field]))
      found.push_back(std::move(fields));
  }
  return found;
}

/// "0100007F:1F90" and the like: words of 32 bits in the machine's order.
std::string address_in(const std::string& field) {
  std::array<std::uint32_t, 4> words{};
  const std::size_t digits = field.find(':');
  for (std::size_t i = 0; i < digits / 8; ++i)
    words[i] = static_cast<std::uint32_t>(std::stoul(field.substr(8 * i, 8), nullptr, 16));
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(digits == 8 ? AF_INET : AF_INET6, words.data(), text.data(), text.size());
  return text.data();
}

}  // namespace

std::vector<std::string> listening_sockets() {
  const auto own = own_sockets();
  std::vector<std::string> found;
  for (const char* table : {"tcp", "tcp6"})
    for (const Fields& fields : lines_of(own, table, 9))
      if (fields[3] == "0A") found.push_back(fmt::format("{} {}", table, address_in(fields[1])));
  // Whoever sends datagrams to one of these is heard, too.
  for (const char* table : {"udp", "udp6"})
    for (const Fields& fields : lines_of(own, table, 9))
      found.push_back(fmt::format("{} {}", table, address_in(fields[1])));
  constexpr unsigned long accepts = 1 << 16;
  for (const Fields& fields : lines_of(own, "unix", 6))
    if ((std::stoul(fields[3], nullptr, 16) & accepts) != 0)
      found.push_back(fmt::format("unix {}", fields.size() > 7 ? fields[7] : "without a name"));
  std::ranges::sort(found);
  return found;
}

std::vector<std::string> connected_addresses() {
  const auto own = own_sockets();
  std::set<std::string> found;
  for (const char* table : {"tcp", "tcp6"})
    for (const Fields& fields : lines_of(own, table, 9))
      if (fields[3] == "01") found.insert(address_in(fields[2]));
  return {found.begin(), found.end()};
}

int shared_segments() {
  std::ifstream file{"/proc/self/maps"};
  std::set<std::string> inodes;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words{line};
    const Fields fields{std::istream_iterator<std::string>{words}, {}};
    if (fields.size() > 5 && fields[5].starts_with("/memfd:") && fields[1].back() == 's')
      inodes.insert(fields[4]);
  }
  return static_cast<int>(inodes.size());
}

std::size_t bytes_of_segments() {
  std::ifstream file{"/proc/self/smaps"};
  std::size_t kilobytes = 0, share = 0;
  bool is_segment = false;
  for (std::string line; std::getline(file, line);) {
    if (line.find('-') < line.find(' '))  // "7f00-7f01 rw-s ...": the next mapping
      is_segment = line.find("/memfd:capstan") != std::string::npos;
    else if (is_segment && std::sscanf(line.c_str(), "Pss: %zu", &share) == 1)
      kilobytes += share;
  }
  return kilobytes << 10;
}

}  // namespace capstan
