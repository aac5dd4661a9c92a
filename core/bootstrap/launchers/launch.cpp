// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/launchers/launch.hpp"

#include <fmt/format.h>
#include <string.h>

#include <charconv>
#include <cstdlib>
#include <utility>
#include <vector>

#include "capstan/error.hpp"
#include "core/bootstrap/launchers/half_known.hpp"
#include "core/bootstrap/launchers/job_identity.hpp"
#include "core/bootstrap/launchers/launch_names.hpp"
#include "core/bootstrap/launchers/pmi.hpp"
#include "core/bootstrap/launchers/slurm.hpp"
#include "core/platform/net/ip_address.hpp"

namespace capstan {
namespace {

constexpr std::size_t shortest_secret = 16;

/// Reads whole numbers from text; empty if `text` is anything else.
std::optional<int> parse_count(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

/// The environment with the checks that all launchers need.
class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  bool has(const std::string& name) const { return environment_(name).has_value(); }
  std::optional<std::string> text(const std::string& name) const { return environment_(name); }
  const Environment& environment() const { return environment_; }

  std::string text_of(const std::string& name, const char* launcher) const {
    const auto value = text(name);
    if (value && !value->empty()) return *value;
    throw InvalidArgument(fmt::format(
        "{} is not set, though other variables show a start by {}: start all ranks through it, or "
        "unset its variables",
        name, launcher));
  }
  int count(const std::string& name, const char* launcher) const {
    const auto value = text_of(name, launcher);
    if (const auto number = parse_count(value)) return *number;
    throw InvalidArgument(
        fmt::format("{} is \"{}\", not a whole number from 0 up: {} sets it; do not set it by hand",
                    name, value, launcher));
  }
  int count_if_set(const std::string& name, const char* launcher) const {
    return has(name) ? count(name, launcher) : -1;
  }

 private:
  const Environment& environment_;
};

[[noreturn]] void contradiction(const std::string& larger, int a, const std::string& smaller, int b,
                                const std::string& launcher) {
  throw InvalidArgument(fmt::format(
      "{}={} does not go with {}={}: {} sets both; unset what was set by hand or inherited", larger,
      a, smaller, b, launcher));
}

void check(const Launch& launch, const LaunchNames& names) {
  if (launch.size < 1) {
    throw InvalidArgument(
        fmt::format("{} is {}: a job has at least one rank", names.size, launch.size));
  }
  if (launch.rank >= launch.size) {
    contradiction(names.rank, launch.rank, names.size, launch.size, launch.launcher);
  }
  // By hand torchrun's LOCAL_RANK is also the number of a GPU.
  const bool counts = &names != &torchrun_names;
  if (counts && launch.local_rank >= launch.size) {
    contradiction(names.local_rank, launch.local_rank, names.size, launch.size, launch.launcher);
  }
  if (launch.local_size > launch.size) {
    contradiction(names.local_size, launch.local_size, names.size, launch.size, launch.launcher);
  }
  if (launch.local_size >= 0 && launch.local_rank >= launch.local_size) {
    contradiction(names.local_rank, launch.local_rank, names.local_size, launch.local_size,
                  launch.launcher);
  }
}

Launch read(const Variables& variables, const LaunchNames& names) {
  Launch launch;
  launch.launcher = names.launcher;
  launch.rank = variables.count(names.rank, names.launcher);
  launch.size = variables.count(names.size, names.launcher);
  launch.local_rank = variables.count_if_set(names.local_rank, names.launcher);
  launch.local_size = variables.count_if_set(names.local_size, names.launcher);
  check(launch, names);
  return launch;
}

Secret secret_of(const Variables& variables) {
  auto text = variables.text("CAPSTAN_SECRET");
  if (text && text->size() >= shortest_secret) {
    auto secret = Secret::from_text(*text);
    ::explicit_bzero(text->data(), text->size());
    return secret;
  }
  throw InvalidArgument(fmt::format(
      "CAPSTAN_SECRET {}: give all ranks the same secret of {} characters or more, such as "
      "`openssl "
      "rand -hex 32` prints",
      text ? "is too short to be one" : "is not set, though CAPSTAN_STORE is", shortest_secret));
}

/// The store that CAPSTAN_STORE names; empty if the variable is not set.
std::optional<StoreLocation> named_store(const Variables& variables, bool hosted_by_launcher) {
  const auto text = variables.text("CAPSTAN_STORE");
  if (!text) return std::nullopt;
  if (hosted_by_launcher && text->starts_with('@'))
    return StoreLocation{AbstractEndpoint{text->substr(1)}, secret_of(variables), true};
  return StoreLocation{parse_endpoint(*text, "CAPSTAN_STORE"), secret_of(variables),
                       hosted_by_launcher};
}

std::optional<Launch> from_capstan_run(const Variables& variables) {
  if (!variables.has("CAPSTAN_RANK") && !variables.has("CAPSTAN_SIZE")) return std::nullopt;
  Launch launch = read(variables, capstan_names);
  launch.store = named_store(variables, true);
  if (!launch.store && launch.size > 1) variables.text_of("CAPSTAN_STORE", "capstan run");
  launch.job = "capstan run at " + variables.text("CAPSTAN_STORE").value_or("no store");
  return launch;
}

/// The launcher serves PMIx to this rank. PMIx of an outer launcher numbers ranks differently, so
/// it does not count.
bool offers_pmix(const Variables& variables, int rank) {
  return variables.has("PMIX_NAMESPACE") && variables.text("PMIX_RANK") == std::to_string(rank);
}

/// The socket, or else the port, where the launcher serves PMI; not an outer launcher's.
std::optional<pmi::Access> offered_pmi(const Variables& variables, const Launch& launch) {
  const char* const launcher = launch.launcher.c_str();
  if (variables.text("PMI_RANK") != std::to_string(launch.rank)) return std::nullopt;
  if (variables.has("PMI_FD")) {
    return pmi::Access{.descriptor = variables.count("PMI_FD", launcher),
                       .survives_a_second_start = launch.launcher == mpich_names.launcher};
  }
  if (!variables.has("PMI_PORT")) return std::nullopt;
  return pmi::Access{.port = parse_endpoint(variables.text_of("PMI_PORT", launcher), "PMI_PORT"),
                     .id = variables.count("PMI_ID", launcher)};
}

std::optional<Launch> from_open_mpi(const Variables& variables) {
  if (!variables.has(open_mpi_names.rank) && !variables.has(open_mpi_names.size)) {
    return std::nullopt;
  }
  Launch launch = read(variables, open_mpi_names);
  auto job = variables.text("PMIX_NAMESPACE");
  if (!job) job = variables.text("OMPI_MCA_ess_base_jobid");
  launch.job = "Open MPI " + (job ? *job : launcher_process_identity());
  launch.offers_pmix = offers_pmix(variables, launch.rank);
  return launch;
}

std::optional<Launch> from_mpich(const Variables& variables) {
  if (!variables.has(mpich_names.rank) && !variables.has(mpich_names.size)) return std::nullopt;
  if (slurm::serves_pmi(variables.environment())) return std::nullopt;
  slurm::refuse_other_pmi(variables.environment());
  Launch launch = read(variables, mpich_names);
  // The process that starts the ranks differs between hosts.
  const auto store = variables.text("CAPSTAN_STORE");
  launch.job = "MPICH " + (store ? "at " + *store : launcher_process_identity());
  launch.pmi = offered_pmi(variables, launch);
  return launch;
}

/// The address of the store under torchrun. The agent may occupy MASTER_PORT for a store of its
/// own.
TcpEndpoint master_of(const Variables& variables) {
  auto host = variables.text_of("MASTER_ADDR", "torchrun");
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  const bool occupied = variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  const int port = variables.count("MASTER_PORT", "torchrun") + (occupied ? 1 : 0);
  if (port >= 1 && port <= 65535) return {host, static_cast<std::uint16_t>(port)};
  throw InvalidArgument(
      fmt::format("MASTER_PORT is {}, which makes the store's port {}: choose one from 1 to 65534",
                  *variables.text("MASTER_PORT"), port));
}

bool trusts_network(const Variables& variables) {
  const auto text = variables.text("CAPSTAN_TRUSTED_NETWORK").value_or("0");
  if (text == "0" || text == "1") return text == "1";
  throw InvalidArgument(
      fmt::format("CAPSTAN_TRUSTED_NETWORK is \"{}\": set it to 1 if nobody but this job's hosts "
                  "reaches the port at which ranks meet, else to 0",
                  text));
}

/// Whether only processes of this host reach the address.
bool is_local(const std::string& host) {
  const auto address = IpAddress::parse(host);
  return address ? address->is_loopback() : host == "localhost";
}

/// The secret of a job that meets at `master`. Without CAPSTAN_SECRET it is made from the job's
/// name, which whoever reaches the port can guess.
Secret secret_at(const TcpEndpoint& master, const Variables& variables, const Launch& launch) {
  if (variables.has("CAPSTAN_SECRET")) return secret_of(variables);
  if (is_local(master.host) || trusts_network(variables)) return Secret::from_text(launch.job);
  throw InvalidArgument(fmt::format(
      "rank {}: join at {}: without a secret, whoever reaches this port could join as a rank. Give "
      "all ranks the same CAPSTAN_SECRET, such as `openssl rand -hex 32` prints, or set "
      "CAPSTAN_TRUSTED_NETWORK=1 if nobody but the job's hosts reaches the port",
      launch.rank, to_string(master)));
}

Launch read_torchrun(const Variables& variables) {
  Launch launch = read(variables, torchrun_names);
  const TcpEndpoint master = master_of(variables);
  launch.job =
      fmt::format("torchrun {} at {}", variables.text("TORCHELASTIC_RUN_ID").value_or("without id"),
                  to_string(master));
  // Ranks of one host meet at a local socket, which other users cannot connect to.
  const bool on_one_host = launch.local_size == launch.size;
  if (!on_one_host || variables.has("CAPSTAN_SECRET"))
    launch.store = StoreLocation{master, secret_at(master, variables, launch), false};
  return launch;
}

std::optional<Launch> from_torchrun_itself(const Variables& variables) {
  if (!variables.has("TORCHELASTIC_RUN_ID")) return std::nullopt;
  return read_torchrun(variables);
}

std::optional<Launch> from_torch_variables(const Variables& variables) {
  const bool meant = variables.has(torchrun_names.rank) &&
                     (variables.has(torchrun_names.size) || variables.has("MASTER_ADDR"));
  if (!meant) return std::nullopt;
  return read_torchrun(variables);
}

/// The number of tasks on node `node` from Slurm's "2(x3),1": three nodes of two, then one of one.
/// -1 if the text is anything else.
int tasks_on_node(std::string_view text, int node) {
  while (!text.empty()) {
    const auto item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const auto open = item.find("(x");
    const auto tasks = parse_count(item.substr(0, open));
    const auto times =
        open == item.npos ? 1 : parse_count(item.substr(open + 2, item.size() - open - 3));
    if (!tasks || !times) return -1;
    if (node < *times) return *tasks;
    node -= *times;
  }
  return -1;
}

std::optional<Launch> from_slurm(const Variables& variables) {
  if (!slurm::is_task(variables.environment()) || !variables.has("SLURM_PROCID"))
    return std::nullopt;
  const LaunchNames names{"Slurm", "SLURM_PROCID", slurm::size_name(variables.environment()),
                          "SLURM_LOCALID", "the number of tasks on this node"};
  Launch launch = read(variables, names);
  if (const auto tasks = variables.text("SLURM_STEP_TASKS_PER_NODE")) {
    const int node = variables.count_if_set("SLURM_NODEID", "Slurm");
    launch.local_size = node < 0 ? -1 : tasks_on_node(*tasks, node);
    check(launch, names);
  }
  launch.job = fmt::format("Slurm {}.{}", variables.text_of("SLURM_JOB_ID", "Slurm"),
                           variables.text_of("SLURM_STEP_ID", "Slurm"));
  launch.offers_pmix = offers_pmix(variables, launch.rank);
  launch.pmi = offered_pmi(variables, launch);
  return launch;
}

Launch alone(const Variables& variables) {
  if (variables.has("CAPSTAN_STORE")) {
    throw InvalidArgument(
        "CAPSTAN_STORE is set, but nothing says which rank this process is: start it with capstan "
        "run, mpirun, srun or torchrun, or unset CAPSTAN_STORE to run as a world of one rank");
  }
  return {.local_rank = 0, .local_size = 1, .job = "alone", .launcher = "none"};
}

/// The innermost of the launches that one environment shows, the first of which has a single rank.
/// torchrun is the innermost, as programs start torch's processes inside of other launchers' jobs.
/// Two other launchers are refused, as nothing shows which is the inner one; of Slurm beside one of
/// them, which mostly has started it, processes may.
Launch innermost(const std::vector<Launch>& launches, const Environment& environment) {
  const Launch& first = launches.front();
  if (first.launcher == torchrun_names.launcher) return first;
  for (const Launch& other : launches) {
    if (other.size == 1) continue;
    if (other.launcher == torchrun_names.launcher) return other;
    if (other.launcher == "Slurm") {
      const Inner inner = slurm::inner_beside_launcher(environment);
      if (inner == Inner::slurm) return other;
      if (inner == Inner::launcher) continue;
    }
    throw InvalidArgument(fmt::format(
        "{} has started this process as the only rank, and {} as rank {} of {}: nothing tells "
        "which of them started the other; unset the variables of the one that does not count",
        first.launcher, other.launcher, other.rank, other.size));
  }
  return first;
}

/// Refuses variables of another launcher that name another place among several ranks: nothing tells
/// whether they are of a program that this rank has started, or of one that started the launcher.
/// Slurm's do not count, nor those by which srun serves PMI: its step may have started mpirun.
void require_same_place(const Launch& launch, const Variables& variables) {
  if (launch.launcher == torchrun_names.launcher) return;
  const bool by_srun = slurm::serves_pmi(variables.environment());
  const LaunchNames* own = nullptr;
  for (const LaunchNames* const names : placing) {
    if (names->launcher == launch.launcher) own = names;
    if (names->launcher == launch.launcher || (by_srun && names == &mpich_names)) continue;
    const auto rank = parse_count(variables.text(names->rank).value_or(""));
    const auto size = parse_count(variables.text(names->size).value_or(""));
    if (!rank || !size || *size <= 1 || (*rank == launch.rank && *size == launch.size)) continue;
    throw InvalidArgument(fmt::format(
        "{} has started this process as rank {} of {}{}, and {} and {} say rank {} of {}: unset "
        "the variables of the one that does not count",
        launch.launcher, launch.rank, launch.size,
        own ? fmt::format(" ({}, {})", own->rank, own->size) : "", names->rank, names->size, *rank,
        *size));
  }
}

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (!value) return std::nullopt;
  return value;
}

/// Rank and size as Hydra tells them over PMI.
std::optional<std::string> said_at_port(const std::string& name) {
  const auto port = variable("PMI_PORT"), id = variable("PMI_ID");
  const auto number = parse_count(id.value_or(""));
  const bool rank = name == mpich_names.rank;
  if (!port || !number || !(rank || name == mpich_names.size)) return std::nullopt;
  constexpr std::chrono::seconds patience{30};
  const auto place = pmi::place({.port = parse_endpoint(*port, "PMI_PORT"), .id = *number},
                                Deadline::in(patience));
  return std::to_string(rank ? place.first : place.second);
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    if (auto value = variable(name.c_str())) return value;
    return said_at_port(name);
  };
}

Launch detect_launch(const Environment& environment) {
  const Variables variables{environment};
  std::vector<Launch> launches;
  bool store_is_launchers = false;
  for (const auto detect : {from_capstan_run, from_torchrun_itself, from_open_mpi, from_mpich,
                            from_torch_variables, from_slurm}) {
    auto launch = detect(variables);
    if (!launch) continue;
    store_is_launchers = store_is_launchers || launch->launcher == capstan_names.launcher;
    if (!store_is_launchers)
      if (auto store = named_store(variables, false)) launch->store = std::move(store);
    if (launch->size > 1 && launches.empty()) {
      require_same_place(*launch, variables);
      return *launch;
    }
    launches.push_back(std::move(*launch));
  }
  if (launches.empty()) {
    refuse_half_known(environment);
    return alone(variables);
  }
  Launch launch = innermost(launches, environment);
  if (launch.size == 1) refuse_half_known(environment, launches);
  return launch;
}

}  // namespace capstan
