// SPDX-License-Identifier: Apache-2.0

// Feeds arbitrary text to whatever reads settings, host lists, what launchers set and what ranks
// leave for each other. It must refuse them with one of Capstan's errors or make sense of them.

#include <cstdlib>
#include <map>
#include <sstream>

#include "capstan/error.hpp"
#include "capstan/settings.hpp"
#include "core/bootstrap/launchers/launch.hpp"
#include "core/bootstrap/launchers/pmi_line.hpp"
#include "core/bootstrap/store/store_address.hpp"
#include "core/bootstrap/unique_id.hpp"
#include "core/platform/net/network.hpp"
#include "core/schedule/selection/rules.hpp"
#include "core/schedule/simulation/fabric.hpp"
#include "core/tools/cli/sizes.hpp"
#include "core/tools/launcher/host_list.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "transports/compose/faulty/fault_plan.hpp"

namespace {

using namespace capstan;
using fuzz::require;

void host_list(const std::string& text) {
  const auto hosts = launcher::parse_hosts(text);
  require(!hosts.empty());
  for (const auto& host : hosts) require(host.ranks >= 1 && !host.host.empty());
  static_cast<void>(launcher::first_slots(hosts, 0));
}

void host_file(const std::string& text) {
  std::istringstream file{text};
  require(!launcher::parse_hostfile(file, "hosts").empty());
}

void agent(const std::string& text) {
  for (const std::string& word : launcher::agent_command(text, "node1"))
    require(word.find("{host}") == std::string::npos);
}

void algorithm_rules(const std::string& text) {
  AlgorithmRules::parse(text);
}

void bytes(const std::string& text) {
  static_cast<void>(parse_bytes(text));
}

void endpoint(const std::string& text) {
  const TcpEndpoint parsed = parse_endpoint(text, "CAPSTAN_STORE");
  require(parse_endpoint(to_string(parsed), "CAPSTAN_STORE") == parsed);
}

void card(const std::string& text) {
  const StoreAddress parsed = parse_store_address(text);
  require(parse_store_address(to_text(parsed)) == parsed);
}

void pmi_line(const std::string& text) {
  const pmi::Line message = pmi::parse_message(text);
  require(!message.command.empty());
  const std::string line = pmi::to_line(message);
  require(pmi::parse_message(std::string_view{line}.substr(0, line.size() - 1)) == message);
  const auto number = message.number("rc");
  require(!number || message.find("rc"));
}

void pmi_value(const std::string& text) {
  require(pmi::from_hex(pmi::to_hex(text)) == text);
  card(pmi::from_hex(text));
}

void fault_plan(const std::string& text) {
  FaultPlan::parse(text);
}

void interface(const std::string& text) {
  const std::vector<HostAddress> host{
      {.interface = "lo", .ip = IpAddress::parse("127.0.0.1").value(), .loopback = true},
      {.interface = "eth0", .ip = IpAddress::parse("192.0.2.7").value()},
      {.interface = "eth0", .ip = IpAddress::parse("2001:db8::7").value()}};
  require(!choose_addresses(text, host).empty());
}

void unique_id(const std::string& text) {
  require(to_string(unique_id_from_string(text)) == text);
}

/// "NAME=value" lines.
std::map<std::string, std::string> variables_of(const std::string& text) {
  std::map<std::string, std::string> variables;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);)
    if (const auto equals = line.find('='); equals != std::string::npos)
      variables[line.substr(0, equals)] = line.substr(equals + 1);
  return variables;
}

/// All variables that are read here, and none that names files.
constexpr const char* settings_names[] = {
    "CAPSTAN_JOIN_TIMEOUT",    "CAPSTAN_TIMEOUT",         "CAPSTAN_BOOTSTRAP",
    "CAPSTAN_CHUNK",           "CAPSTAN_PINNED_MEMORY",   "CAPSTAN_BUFFER_LIMIT",
    "CAPSTAN_PROGRESS_THREAD", "CAPSTAN_SINGLE_COPY",     "CAPSTAN_UNEXPECTED_MESSAGES",
    "CAPSTAN_HUGE_PAGES",      "CAPSTAN_DEVICE_EXECUTOR", "CAPSTAN_GPU_DIRECT",
    "CAPSTAN_AUTOTUNE",        "CAPSTAN_NETWORK",         "CAPSTAN_WIRE",
    "CAPSTAN_VIRTUAL_HOSTS",   "CAPSTAN_RAILS",           "CAPSTAN_ALGORITHM"};

void settings(const std::string& text) {
  const auto variables = variables_of(text);
  for (const char* name : settings_names) {
    const auto found = variables.find(name);
    ::setenv(name, found == variables.end() ? "" : found->second.c_str(), 1);
  }
  const Settings read = Settings::from_environment();
  require(read.timeout.count() > 0 && read.join_timeout.count() > 0);
  require(read.rails >= 1 && read.rails <= 8 && read.virtual_hosts >= 0);
}

void list_of_numbers(const std::string& text) {
  for (const int number : cli::parse_list(text, "--ranks")) require(number >= 0);
}

void size(const std::string& text) {
  static_cast<void>(cli::parse_size(text, "--bytes"));
}

void map_of_hosts(const std::string& text) {
  const Hosts hosts = cli::parse_hosts(text);
  require(hosts.ranks() >= 1 && hosts.ranks() <= cli::most_ranks);
  require(hosts.count() >= 1 && hosts.count() <= hosts.ranks());
}

void fabric(const std::string& text) {
  constexpr int ports = 8;
  require(make_fabric(parse_fabric(text), ports, 1)->ports() == ports);
}

/// Checks variables as launchers set them.
void environment(const std::string& text) {
  const auto variables = variables_of(text);
  const Launch launch = detect_launch([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional{found->second};
  });
  require(launch.size >= 1 && launch.rank >= 0 && launch.rank < launch.size);
  require(launch.local_size <= launch.size);
}

struct Reader {
  void (*read)(const std::string& text);
  const char* valid;  // an example
};
constexpr Reader readers[] = {
    {host_list, "a:2,b,[fd00::7]:4"},
    {host_file, "a:2\nb slots=3 # some\n"},
    {agent, "ssh -oBatchMode=yes {host}"},
    {algorithm_rules, "all_reduce:0-4k:flat,4k-inf:ring/staged;broadcast:direct"},
    {bytes, "256k"},
    {endpoint, "[fd00::1]:4711"},
    {card, "192.0.2.7:4711 secret"},
    {pmi_line, "cmd=get_result rc=0 msg=success value=7f"},
    {pmi_value, "613a3120736563726574"},
    {fault_plan, "seed=42,delay=0.1,stop=1@5:10,reset=0-1@7,death=3@50"},
    {interface, "2001:db8::/32"},
    {unique_id, ""},
    {list_of_numbers, "1-17,32"},
    {size, "64k"},
    {fabric, "fat-tree:radix=32,oversubscription=2"},
    {fabric, "dragonfly"},
    {map_of_hosts, "2x3"},
    {map_of_hosts, "0,0,1"},
    {settings, "CAPSTAN_TIMEOUT=0.5\nCAPSTAN_CHUNK=256k\nCAPSTAN_RAILS=2\nCAPSTAN_AUTOTUNE=0\n"},
    {settings, "CAPSTAN_WIRE=plain\nCAPSTAN_NETWORK=tcp\nCAPSTAN_ALGORITHM=all_reduce:ring\n"},
    {environment, "RANK=0\nWORLD_SIZE=2\nMASTER_ADDR=[fd00::1]\nMASTER_PORT=4711\n"},
    {environment,
     "CAPSTAN_RANK=1\nCAPSTAN_SIZE=2\nCAPSTAN_STORE=a:1\nCAPSTAN_SECRET=0123456789abcdef\n"},
    {environment,
     "OMPI_COMM_WORLD_RANK=0\nOMPI_COMM_WORLD_SIZE=2\nPMIX_NAMESPACE=x\nPMIX_RANK=0\n"},
    {environment, "PMI_RANK=0\nPMI_SIZE=2\nMPI_LOCALRANKID=0\nMPI_LOCALNRANKS=1\nPMI_FD=7\n"},
    {environment, "PMI_RANK=1\nPMI_SIZE=2\nPMI_PORT=[fd00::1]:4711\nPMI_ID=1\n"},
    {environment,
     "SLURM_STEP_ID=0\nSLURM_PROCID=0\nSLURM_NTASKS=4\nSLURM_LOCALID=0\nSLURM_JOB_ID=7\n"
     "SLURM_STEP_TASKS_PER_NODE=2(x3),1\nSLURM_NODEID=1\n"},
};

}  // namespace

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < std::size(readers); ++i)
    all.push_back(static_cast<char>(i) + std::string{readers[i].valid});
  const TcpEndpoint where{"192.0.2.7", 4711};
  const UniqueId id = seal(UniqueIdContent{where, Secret::from_text("secret")});
  for (std::size_t i = 0; i < std::size(readers); ++i)
    if (readers[i].read == unique_id) all[i] += to_string(id);
  return all;
}

/// The first byte says who reads the rest.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Source source{data, size};
  const Reader& reader = readers[source.byte() % std::size(readers)];
  try {
    reader.read(std::string{fuzz::text_of(source.rest())});
  } catch (const Error& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
