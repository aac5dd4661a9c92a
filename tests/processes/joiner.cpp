// SPDX-License-Identifier: Apache-2.0

// One rank that does no more than start-up: it joins its job's store, exchanges a line with all
// others, and prints what it knows of itself. With "again", it does so several times over, and then
// loads the library that may be named behind it. An error is printed and makes the exit status 3.

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <set>
#include <string>

#include "capstan/error.hpp"
#include "capstan/settings.hpp"
#include "core/bootstrap/join.hpp"
#include "core/platform/net/host_identity.hpp"

namespace capstan {
namespace {

void join_once(const Launch& launch, const Settings& settings) {
  const auto deadline = Deadline::in(settings.join_timeout);
  const auto store = join(launch, deadline, settings);
  put_text(*store, fmt::format("host/{}", launch.rank), host_identity());
  barrier(*store, "joined", launch.rank, launch.size, deadline);
  std::set<std::string> hosts;
  for (int peer = 0; peer < launch.size; ++peer)
    hosts.insert(get_text(*store, fmt::format("host/{}", peer), deadline));
  barrier(*store, "left", launch.rank, launch.size, deadline);

  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  fmt::print("rank {} of {} on {}, {} of {} there, {} hosts, by {}\n", launch.rank, launch.size,
             name.data(), launch.local_rank, launch.local_size, hosts.size(), launch.launcher);
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  try {
    const auto launch = capstan::detect_launch(capstan::process_environment());
    const auto settings = capstan::Settings::from_environment();
    const bool again = argc > 1 && std::string{argv[1]} == "again";
    for (int i = 0; i < (again ? 5 : 1); ++i) capstan::join_once(launch, settings);
    if (argc > 2 && !::dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL)) {
      fmt::print("Error: {}\n", ::dlerror());
      return 3;
    }
  } catch (const capstan::Error& error) {
    fmt::print("Error: {}\n", error.what());
    return 3;
  }
  return 0;
}
