#include "perf/compare/workers.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "capstan/error.hpp"
#include "perf/compare/protocol.hpp"

namespace capstan::cli {
namespace {

namespace fs = std::filesystem;

/// The worker programs lie beside bin in both the build tree and an installation.
fs::path find_program(const std::string& name) {
  const fs::path program = fs::read_symlink("/proc/self/exe");
  const fs::path worker = program.parent_path().parent_path() / "libexec/capstan" / name;
  return fs::exists(worker) ? worker : fs::path{};
}

using Words = std::vector<std::string>;

/// Left alone, UCX takes shared memory between network namespaces that stand for hosts. (Inside a
/// host MPICH has shared memory of its own.)
constexpr const char* ucx_tls = "self,tcp";

Words joined(Words first, const Words& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

Words mca(std::initializer_list<std::pair<const char*, std::string>> parameters) {
  Words words;
  for (const auto& [name, value] : parameters) words = joined(words, {"--mca", name, value});
  return words;
}

/// mpirun hands its own environment on to ranks on other hosts only where it is told to.
Words open_mpi(const Venue& venue, const Words& options) {
  Words command{"mpirun.openmpi",
                "--oversubscribe",
                "--bind-to",
                "none",
                "-n",
                std::to_string(venue.ranks())};
  if (::geteuid() == 0) command.push_back("--allow-run-as-root");
  if (venue.named()) {
    command = joined(command, {"--host", to_string(venue.hosts())});
    command = joined(command, mca({{"plm_rsh_agent", venue.rsh()},
                                   {"plm_rsh_no_tree_spawn", "1"},
                                   {"oob_tcp_if_include", venue.interface()}}));
    for (const char* name :
         {against::referee_variable, against::secret_variable, against::player_variable})
      command = joined(command, {"-x", name});
  }
  return joined(command, options);
}

Words mpich(const Venue& venue) {
  Words command{"mpirun.mpich", "-bind-to", "none"};
  if (venue.named())
    command = joined(command, {"-launcher", "rsh", "-launcher-exec", venue.rsh(), "-iface",
                               venue.interface(), "-hosts", to_string(venue.hosts())});
  return joined(command, {"-n", std::to_string(venue.ranks())});
}

PlayerSpec open_mpi_player(const Venue& venue, const char* name, const std::string& what,
                           const Words& options) {
  return {name, "openmpi", what, find_program("openmpi_worker"), open_mpi(venue, options)};
}

/// Every way that Open MPI has over TCP.
std::vector<PlayerSpec> open_mpi_over_hosts(const Venue& venue) {
  const std::string& wire = venue.interface();
  const Words ob1 = mca({{"pml", "ob1"}, {"btl", "self,vader,tcp"}, {"btl_tcp_if_include", wire}});
  const Words ofi =
      joined(mca({{"pml", "cm"}, {"mtl", "ofi"}, {"mtl_ofi_provider_include", "tcp;ofi_rxm"}}),
             {"-x", "FI_TCP_IFACE=" + wire});
  const Words ucx =
      joined(mca({{"pml", "ucx"}, {"pml_ucx_tls", "any"}, {"pml_ucx_devices", "any"}}),
             {"-x", "UCX_NET_DEVICES=" + wire, "-x", fmt::format("UCX_TLS={}", ucx_tls)});
  std::vector<PlayerSpec> players{
      open_mpi_player(venue, "openmpi", "coll/tuned over btl/tcp on " + wire, ob1),
      open_mpi_player(venue, "openmpi-ofi", "coll/tuned over mtl/ofi, tcp on " + wire, ofi),
      open_mpi_player(venue, "openmpi-ucx", "coll/tuned over pml/ucx, tcp on " + wire, ucx)};
  if (venue.ranks_per_host() > 1)  // coll/han is for groups of ranks on a host
    players.push_back(open_mpi_player(venue, "openmpi-han", "coll/han over btl/tcp on " + wire,
                                      joined(ob1, mca({{"coll_han_priority", "100"}}))));
  return players;
}

std::vector<PlayerSpec> open_mpi_players(const Venue& venue) {
  if (venue.several_hosts()) return open_mpi_over_hosts(venue);
  return {open_mpi_player(venue, "openmpi", "defaults (coll/tuned over btl/vader)", {}),
          open_mpi_player(venue, "openmpi-sm", "coll_sm_priority 100",
                          mca({{"coll_sm_priority", "100"}}))};
}

std::vector<PlayerSpec> mpich_players(const Venue& venue) {
  const PlayerSpec plain{"mpich", "mpich", "defaults", find_program("mpich_worker"), mpich(venue)};
  if (venue.several_hosts()) {
    PlayerSpec tcp = plain;
    tcp.configuration = "defaults, ch4:ucx over tcp on " + venue.interface();
    tcp.environment = {{"UCX_NET_DEVICES", venue.interface()}, {"UCX_TLS", ucx_tls}};
    return {tcp};
  }
  PlayerSpec gather = plain;
  gather.name = "mpich-rg";
  gather.configuration = "release_gather for bcast, reduce, allreduce, barrier";
  for (const char* collective : {"BCAST", "REDUCE", "ALLREDUCE", "BARRIER"})
    gather.environment.emplace_back(fmt::format("MPIR_CVAR_{}_POSIX_INTRA_ALGORITHM", collective),
                                    "release_gather");
  return {plain, gather};
}

std::vector<PlayerSpec> gloo_players(const Venue& venue) {
  std::vector<PlayerSpec> players;
  const std::string wire = venue.several_hosts() ? venue.interface() : "loopback";
  for (const char* algorithm : {"ring", "bcube"})
    players.push_back({.name = players.empty() ? "gloo" : "gloo-bcube",
                       .peer_name = "gloo",
                       .configuration = fmt::format("tcp on {}, {}", wire, algorithm),
                       .program = find_program("gloo_worker"),
                       .launcher = venue.own_launcher(),
                       .arguments = {algorithm}});
  return players;
}

/// Between hosts on TCP as all the others, unless the environment says otherwise.
PlayerSpec capstan_player(const Venue& venue) {
  PlayerSpec player{own_name, own_name, "defaults", find_program("capstan_worker"),
                    venue.own_launcher()};
  if (!venue.several_hosts()) return player;
  const char* network = std::getenv("CAPSTAN_NETWORK");
  player.environment = {{"CAPSTAN_NETWORK", network ? network : "tcp"}};
  player.configuration =
      fmt::format("defaults, {} on {}", network ? network : "tcp", venue.interface());
  return player;
}

PlayerSpec bound_player(const Venue& venue) {
  return {bound_name, bound_name,
          venue.several_hosts()
              ? "bare sockets: each host's share of the bytes sent and received at once"
              : "flag exchange, and each rank's share of the bytes copied",
          find_program("bound_worker"), venue.own_launcher()};
}

std::vector<PlayerSpec> configurations(const std::string& peer, const Venue& venue) {
  if (peer == "openmpi") return open_mpi_players(venue);
  if (peer == "mpich") return mpich_players(venue);
  if (peer == "gloo") return gloo_players(venue);
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

std::vector<PlayerSpec> players_of(const std::vector<std::string>& peers, const Venue& venue) {
  std::vector<PlayerSpec> players{capstan_player(venue), bound_player(venue)};
  for (const std::string& peer : peers)
    for (PlayerSpec& player : configurations(peer, venue)) players.push_back(std::move(player));
  for (const PlayerSpec& player : players)
    if (player.program.empty())
      throw InvalidArgument(fmt::format(
          "--against: the program of '{}' was not built: configure with CAPSTAN_BUILD_PERF=ON, "
          "without sanitizers, and see which libraries CMake has found to compare with",
          player.name));
  return players;
}

}  // namespace capstan::cli
