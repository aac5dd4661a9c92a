// SPDX-License-Identifier: Apache-2.0
#include "core/communicator/communicator_prepared.hpp"
#include "core/engine/run/engine.hpp"
#include "core/platform/net/log.hpp"
#include "core/profiles/find_profile.hpp"
#include "core/profiles/machine_state.hpp"
#include "core/profiles/write_profile.hpp"
#include "topology/machine.hpp"

namespace capstan {
namespace {

std::string file_for(const std::string& named, const Fingerprint& machine) {
  if (named == "none")
    throw InvalidArgument("no profile can be called none: name another file, or \"user\"");
  if (!named.empty() && named != "user") return named;
  const std::string file = user_profile_path(machine);
  if (file.empty())
    throw InvalidArgument(
        "there is neither XDG_CONFIG_HOME nor HOME for the user's profile: name a file");
  return file;
}

/// How the machine was since this thread began, as far as the thread can know.
MachineState state_so_far(bool shares_cores) {
  const MachineReading now = read_machine();
  MachineReading begin = now;
  begin.ran = begin.waited = 0;
  const MachineStretch life{begin, now};
  MachineState state = MachineState::of(std::span{&life, 1});
  state.shares_cores = shares_cores;
  return state;
}

std::size_t save(Engine& engine, const std::string& named) {
  const MachineView& machine = engine.machine();
  if (engine.rank() != 0 || machine.threads) return 0;
  std::vector<MeasuredCell> cells = engine.autotuned();
  if (cells.empty()) return 0;
  const MachineState state = state_so_far(machine.shares_cores);
  for (MeasuredCell& cell : cells) cell.disturbed = state.busy();
  const Fingerprint here = Fingerprint::of(Machine::discover());
  return add_to_profile(file_for(named, here), here, engine.size(), cells, state.text());
}

}  // namespace

std::size_t Communicator::save_profile(const std::string& file) const {
  return save(Impl::of(*this).engine, file);
}

Communicator::Impl::~Impl() {
  const std::string& file = engine.settings().save_profile;
  if (file.empty()) return;
  try {
    save(engine, file);
  } catch (const std::exception& error) {
    log().warn("rank {}: CAPSTAN_SAVE_PROFILE: {}", engine.rank(), error.what());
  }
}

}  // namespace capstan
