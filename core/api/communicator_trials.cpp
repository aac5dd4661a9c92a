#include "core/api/communicator_prepared.hpp"
#include "core/engine/engine.hpp"
#include "core/net/log.hpp"
#include "core/tuning/find_profile.hpp"
#include "core/tuning/save_profile.hpp"
#include "topology/machine.hpp"

namespace capstan {
namespace {

std::string file_for(const std::string& named, const Fingerprint& machine) {
  if (!named.empty() && named != "user") return named;
  const std::string file = user_profile_path(machine);
  if (file.empty())
    throw InvalidArgument(
        "trials cannot be saved: there is neither XDG_CONFIG_HOME nor HOME: name a file");
  return file;
}

std::size_t save(Engine& engine, const std::string& named) {
  const MachineView& machine = engine.machine();
  if (engine.rank() != 0 || machine.threads) return 0;
  const std::vector<MeasuredCell> cells = engine.trials();
  if (cells.empty()) return 0;
  const Fingerprint here = Fingerprint::of(Machine::discover());
  const std::string file = file_for(named, here);
  Profile profile = profile_to_extend(file, here, OtherProfile::is_refused);
  ProfileGroup& group = profile.group(engine.size(), machine.hosts.count(), {});
  for (const MeasuredCell& cell : cells) replace_cell(group, cell);
  group.date = utc_now();
  save_profile(profile, file);
  return cells.size();
}

}  // namespace

std::size_t Communicator::save_trials(const std::string& file) const {
  return save(Impl::of(*this).engine, file);
}

Communicator::Impl::~Impl() {
  const std::string& file = engine.settings().save_trials;
  if (file.empty()) return;
  try {
    save(engine, file);
  } catch (const std::exception& error) {
    log().warn("rank {}: CAPSTAN_SAVE_TRIALS: {}", engine.rank(), error.what());
  }
}

}  // namespace capstan
