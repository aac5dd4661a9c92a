#include "core/cli/against/players.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "core/ir/error.hpp"

namespace capstan::cli {
namespace {

namespace fs = std::filesystem;

/// Where the players are: beside this program in the build tree, or where it is installed.
fs::path find_program(const std::string& name) {
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  for (const fs::path& folder : {here / "../../perf/peers", here / "../libexec/capstan"})
    if (fs::exists(folder / name)) return fs::canonical(folder / name);
  return {};
}

std::vector<std::string> own_launcher(int ranks) {
  return {fs::read_symlink("/proc/self/exe"),
          "run",
          "-n",
          std::to_string(ranks),
          "--bind",
          "none",
          "--no-tag",
          "--"};
}

std::vector<std::string> open_mpi(int ranks, std::vector<std::string> options) {
  std::vector<std::string> command{
      "mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-n", std::to_string(ranks)};
  if (::geteuid() == 0) command.push_back("--allow-run-as-root");
  command.insert(command.end(), options.begin(), options.end());
  return command;
}

std::vector<std::string> mpich(int ranks) {
  return {"mpirun.mpich", "-bind-to", "none", "-n", std::to_string(ranks)};
}

std::vector<PlayerSpec> configurations(const std::string& peer, int ranks) {
  if (peer == "openmpi")
    return {{"openmpi", peer, "defaults (coll/tuned over btl/vader)",
             find_program("openmpi_player"), open_mpi(ranks, {})},
            {"openmpi-sm", peer, "coll_sm_priority 100", find_program("openmpi_player"),
             open_mpi(ranks, {"--mca", "coll_sm_priority", "100"})}};
  if (peer == "mpich") {
    std::vector<std::pair<std::string, std::string>> variables;
    for (const char* collective : {"BCAST", "REDUCE", "ALLREDUCE", "BARRIER"})
      variables.emplace_back(fmt::format("MPIR_CVAR_{}_POSIX_INTRA_ALGORITHM", collective),
                             "release_gather");
    return {{"mpich", peer, "defaults", find_program("mpich_player"), mpich(ranks)},
            {"mpich-rg",
             peer,
             "release_gather for bcast, reduce, allreduce, barrier",
             find_program("mpich_player"),
             mpich(ranks),
             {},
             variables}};
  }
  if (peer == "gloo")
    return {{"gloo",
             peer,
             "tcp on loopback, ring",
             find_program("gloo_player"),
             own_launcher(ranks),
             {"ring"}},
            {"gloo-bcube",
             peer,
             "tcp on loopback, bcube",
             find_program("gloo_player"),
             own_launcher(ranks),
             {"bcube"}}};
  if (peer == own_name)
    return {{"capstan", peer, "defaults", find_program("capstan_player"), own_launcher(ranks)}};
  if (peer == bound_name)
    return {{"bound", peer, "flag exchange, and each rank's share of the bytes copied",
             find_program("bound_player"), own_launcher(ranks)}};
  throw InvalidArgument(
      fmt::format("--against does not know '{}': choose from openmpi, mpich, gloo", peer));
}

}  // namespace

std::vector<std::string> PlayerSpec::command() const {
  std::vector<std::string> all = launcher;
  all.push_back(program);
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

std::vector<PlayerSpec> players_of(const std::vector<std::string>& peers, int ranks) {
  std::vector<PlayerSpec> players;
  const auto add = [&](const std::string& peer) {
    for (PlayerSpec& player : configurations(peer, ranks)) players.push_back(std::move(player));
  };
  add(own_name);
  add(bound_name);
  for (const std::string& peer : peers) add(peer);
  for (const PlayerSpec& player : players)
    if (player.program.empty())
      throw InvalidArgument(fmt::format(
          "--against: the program of '{}' was not built: configure with CAPSTAN_BUILD_PERF=ON, "
          "without sanitizers, and see which libraries CMake has found to compare with",
          player.name));
  return players;
}

}  // namespace capstan::cli
