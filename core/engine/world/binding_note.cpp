// SPDX-License-Identifier: Apache-2.0
#include "core/engine/world/binding_note.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string_view>

#include "capstan/error.hpp"
#include "topology/machine.hpp"

namespace capstan {
namespace {

std::size_t threads_of_this_process() {
  std::error_code error;
  const std::filesystem::directory_iterator tasks{"/proc/self/task", error};
  if (error) return 1;
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

/// "0-3" of "0 of 0-3".
std::optional<CpuSet> divided_by_launcher(const char* binding) {
  constexpr std::string_view of = " of ";
  const std::string_view text = binding ? binding : "";
  const std::size_t at = text.find(of);
  if (at == text.npos) return std::nullopt;
  try {
    return CpuSet::parse(text.substr(at + of.size()));
  } catch (const InvalidArgument&) {
    return std::nullopt;
  }
}

}  // namespace

RankBinding RankBinding::of_this_process(std::size_t ranks, bool threads) {
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  return {.own = current_binding(),
          .all = divided_by_launcher(std::getenv("CAPSTAN_BINDING")),
          .ranks = ranks,
          .threads = threads ? 1 : threads_of_this_process(),
          .processors = static_cast<std::size_t>(std::max(online, 1L))};
}

bool slows_threads(const RankBinding& binding) {
  constexpr std::size_t that_wait = 1;  // libraries have such threads of their own
  const std::size_t own = binding.own.size();
  return binding.all && own < binding.all->size() && own + that_wait < binding.threads;
}

std::string binding_note(const RankBinding& binding) {
  const std::size_t own = binding.own.size();
  const std::string cpus = fmt::format("CPUs {}", to_string(binding.own));
  const std::size_t most = binding.all ? binding.all->size() : binding.processors;
  if (own >= most) return cpus + ", not bound";
  // Nobody says how another launcher, or taskset, divides the host.
  const std::size_t share = binding.all ? most / std::max(binding.ranks, std::size_t{1}) : 0;
  std::string few;
  if (own < share) few = fmt::format("than its share, {}", share);
  if (own < binding.threads)
    few += fmt::format("{}than the {} threads of this program, which take turns",
                       few.empty() ? "" : ", and ", binding.threads);
  const std::string note =
      fmt::format("{}, bound to {} of {}{}", cpus, own, most, binding.all ? " by capstan run" : "");
  if (few.empty()) return note;
  const char* const remedy = binding.all
                                 ? "capstan run --bind none binds no rank"
                                 : "mpirun --bind-to none and srun --cpu-bind=none bind no rank";
  return fmt::format("{}: fewer {}; {}", note, few, remedy);
}

}  // namespace capstan
