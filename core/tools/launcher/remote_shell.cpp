// SPDX-License-Identifier: Apache-2.0
#include "core/tools/launcher/remote_shell.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "capstan/error.hpp"
#include "core/tools/launcher/host_list.hpp"

namespace capstan::launcher {
namespace {

/// A word in quotes, which a shell takes as it is.
std::string quoted_for_shell(const std::string& word) {
  std::string text = "'";
  for (const char c : word) c == '\'' ? text += R"('\'')" : text += c;
  return text + "'";
}

std::string decoded(std::string_view digits) {
  const auto refuse = [] {
    throw InvalidArgument("capstan shell: not a command in hexadecimal digits: mpirun calls it");
  };
  std::string text;
  if (digits.empty() || digits.size() % 2 != 0) refuse();
  for (std::size_t at = 0; at < digits.size(); at += 2) {
    unsigned char byte = 0;
    const char* const from = digits.data() + at;
    if (std::from_chars(from, from + 2, byte, 16).ptr != from + 2 || byte == 0) refuse();
    text += static_cast<char>(byte);
  }
  return text;
}

}  // namespace

std::string rsh_script(const std::string& agent, const std::string& capstan) {
  check_path_for_agent(capstan);
  std::string command;
  for (std::string word : agent_command(agent, "\n")) {  // a name that no word has
    word = quoted_for_shell(word);
    for (auto at = word.find('\n'); at != word.npos; at = word.find('\n'))
      word.replace(at, 1, R"('"$host"')");
    command += word + " ";
  }
  return fmt::format(R"(#!/bin/sh
# Called as rsh is: [OPTION...] HOST COMMAND...
while [ "${{1#-}}" != "$1" ]; do shift; done
host=$1
shift
hexadecimal=$(printf %s "$*" | od -An -v -tx1 | tr -d ' \n')
exec {}{} shell "$hexadecimal"
)",
                     command, capstan);
}

void become_shell(std::string_view hexadecimal) {
  const std::string command = decoded(hexadecimal);
  ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  throw SystemError(fmt::format("cannot start /bin/sh: {}", std::strerror(errno)));
}

}  // namespace capstan::launcher
