// SPDX-License-Identifier: Apache-2.0
#include "core/communicator/variables.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "core/communicator/setting_table.hpp"
#include "core/platform/net/log.hpp"
#include "core/platform/net/nearest.hpp"

namespace capstan {
namespace {

constexpr std::string_view prefix = "CAPSTAN_";

constexpr OtherVariable others[] = {
    {"CAPSTAN_LOG", "the lines that are logged: debug, info, warn, error or off"},
    {"CAPSTAN_STORE", "where ranks meet, host:port"},
    {"CAPSTAN_TRUSTED_NETWORK",
     "1: under torchrun ranks of several hosts may meet without a secret"},
    {"CAPSTAN_PLUGINS", "the folder of the adapters of backends"},
    {"CAPSTAN_DEBUG_DAG", "files to which values write what ran"},
    {"CAPSTAN_RANK", "set by capstan run: the rank of a process"},
    {"CAPSTAN_SIZE", "set by capstan run: the number of ranks"},
    {"CAPSTAN_LOCAL_RANK", "set by capstan run: the rank among those of the host"},
    {"CAPSTAN_LOCAL_SIZE", "set by capstan run: the number of ranks of the host"},
    {"CAPSTAN_TERMINAL", "set by capstan perf and tune: where rank 0 shows how much is left"},
    {"CAPSTAN_BINDING", "set by capstan run: the processors of the rank, of those of all"},
    {"CAPSTAN_MPI", "what libcapstan-mpi.so serves: off, report, only:all_reduce,..."},
    {"CAPSTAN_PYTORCH_SERVES", "PyTorch's backends in whose place Capstan runs: gloo,mpi"},
    {"CAPSTAN_CUDA_DEVICES", "the number of devices that the stand-in of CUDA shows"},
    {"CAPSTAN_COORDINATOR", "set by capstan perf --against: where its workers meet"},
    {"CAPSTAN_COORDINATOR_SECRET", "set by capstan perf --against: their secret"},
    {"CAPSTAN_WORKER", "set by capstan perf --against: the number of a worker"},
};

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const Setting& setting : setting_table()) names.push_back(setting.variable());
  for (const OtherVariable& other : others) names.emplace_back(other.name);
  return names;
}

}  // namespace

std::span<const OtherVariable> other_variables() {
  return others;
}

std::vector<UnknownVariable> unknown_variables() {
  const auto known = known_names();
  std::vector<UnknownVariable> unknown;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text{*entry};
    const std::string name{text.substr(0, text.find('='))};
    if (!name.starts_with(prefix) || std::ranges::find(known, name) != known.end()) continue;
    unknown.push_back({name, nearest(name, known)});
  }
  std::ranges::sort(unknown, {}, &UnknownVariable::name);
  return unknown;
}

void warn_of_unknown_variables() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const auto& [name, near] : unknown_variables())
      log().warn("{} is no variable of Capstan and has no effect{}", name,
                 near.empty() ? "" : fmt::format(": did you mean {}?", near));
  });
}

}  // namespace capstan
