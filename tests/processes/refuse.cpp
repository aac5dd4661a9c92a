// SPDX-License-Identifier: Apache-2.0

// refuse ERROR CALL[,CALL...] COMMAND...: becomes the command, to which the system refuses these
// calls ("all": every optional one) with this error. Exit status 77: that cannot be had here.

#include <fmt/format.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

#include "capstan/error.hpp"
#include "tests/processes/refused_calls.hpp"

namespace capstan {
namespace {

bool contains(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const auto comma = list.find(',');
    if (list.substr(0, comma) == name) return true;
    list = comma == list.npos ? "" : list.substr(comma + 1);
  }
  return false;
}

int error_named(std::string_view name) {
  constexpr std::pair<std::string_view, int> names[] = {{"EPERM", EPERM},
                                                        {"ENOSYS", ENOSYS},
                                                        {"EAGAIN", EAGAIN},
                                                        {"ENOMEM", ENOMEM},
                                                        {"ENOSPC", ENOSPC}};
  for (const auto& [known, error] : names)
    if (known == name) return error;
  return ENOSYS;
}

std::vector<CallPattern> chosen(std::string_view list) {
  std::vector<CallPattern> calls;
  for (const CallPattern& call : optional_calls())
    if (list == "all" || contains(list, call.name)) calls.push_back(call);
  // Capstan needs these: what it says without them is tested, too.
  for (const CallPattern& call : needed_calls())
    if (contains(list, call.name)) calls.push_back(call);
  if (list == "signalfd") calls.push_back({"signalfd", SYS_signalfd4});
  if (list == "threads") calls = {{"clone", SYS_clone}, {"clone3", SYS_clone3}};
  return calls;
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const auto calls = capstan::chosen(argv[2]);
  if (calls.empty()) return 2;
  const int error = capstan::error_named(argv[1]);
  try {
    capstan::filter_calls(calls, SECCOMP_RET_ERRNO | static_cast<unsigned>(error));
  } catch (const capstan::SystemError& trouble) {
    fmt::print("{}\n", trouble.what());
    return 77;
  }
  ::execvp(argv[3], argv + 3);
  return 127;
}
