// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <map>
#include <new>
#include <numeric>
#include <unordered_map>

#include "capstan/error.hpp"
#include "capstan/version.hpp"
#include "core/engine/control/job_record.hpp"
#include "core/engine/run/progress.hpp"
#include "core/engine/world/binding_note.hpp"
#include "core/engine/world/build_world.hpp"
#include "core/engine/world/make_transport.hpp"
#include "core/engine/world/store_exchange.hpp"
#include "core/platform/memory/huge_pages.hpp"
#include "core/platform/memory/registration/address_range.hpp"
#include "core/platform/net/host_identity.hpp"
#include "core/platform/net/limits.hpp"
#include "core/platform/net/log.hpp"
#include "core/profiles/find_profile.hpp"
#include "topology/machine.hpp"

namespace capstan {
namespace {

/// The processors that a rank may use.
using Processors = std::bitset<CPU_SETSIZE>;

Processors own_processors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  Processors processors;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return processors.set();
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) processors[cpu] = CPU_ISSET(cpu, &allowed) != 0;
  return processors;
}

/// The most ranks that run on one processor: on average, or as they are bound to it alone. 1 where
/// each has its own.
double ranks_per_processor(const std::vector<Processors>& ranks) {
  Processors all;
  std::unordered_map<Processors, std::size_t> bound;
  for (const Processors& own : ranks) {
    all |= own;
    if (own.count() == 1) ++bound[own];
  }
  const auto processors = static_cast<double>(std::max(all.count(), std::size_t{1}));
  double most = static_cast<double>(ranks.size()) / processors;
  for (const auto& [processor, sharing] : bound)
    most = std::max(most, static_cast<double>(sharing));
  return std::max(most, 1.0);
}

bool oversubscribed(const std::vector<Processors>& ranks) {
  return ranks_per_processor(ranks) > 1;
}

/// Whether there is a core for each rank and one for its progress thread.
bool has_free_cores(const std::vector<Processors>& ranks) {
  Processors all;
  for (const Processors& own : ranks) all |= own;
  return all.count() >= 2 * ranks.size();
}

std::vector<CpuSet> cpu_sets(const std::vector<Processors>& ranks) {
  std::vector<CpuSet> sets;
  for (const Processors& own : ranks) {
    std::vector<unsigned> cpus;
    for (unsigned cpu = 0; cpu < own.size(); ++cpu)
      if (own[cpu]) cpus.push_back(cpu);
    sets.emplace_back(std::move(cpus));
  }
  return sets;
}

Network agree_on_network(StoreExchange& exchange, const Hosts& hosts, const Settings& settings) {
  if (!network_depends_on_rdma(hosts, settings)) {
    const bool chosen = !hosts.single() && settings.network != Network::automatic;
    return chosen ? settings.network : Network::tcp;
  }
  return holds_everywhere(exchange, has_rdma(settings), "rdma") ? Network::verbs : Network::tcp;
}

/// The nonce is new for each world and known to its ranks alone, as the store is sealed.
JobKey agree_on_key(StoreExchange& exchange) {
  return {exchange.secret(), exchange.from_first("nonce", random_value<Nonce>())};
}

/// Sizes that keep data in caches. Rank 0 decides them, so that all ranks lay out their segments
/// alike and cut calls into the same blocks: ranks that are bound differently have other caches.
struct Caches {
  Bytes chunk, buffers;
};

/// Rank 0's profile, or its complaint about a file that was named, which all ranks raise.
ProfileContent agree_on_profile(StoreExchange& exchange, const Machine& machine, Network network,
                                const Settings& settings) {
  std::string answer;  // "!ERROR", or FILE\nTEXT, or nothing
  if (exchange.self() == Rank{0}) try {
      const ProfileText found = find_profile(settings.profile, machine);
      if (!found.text.empty()) answer = found.file + "\n" + found.text;
    } catch (const InvalidArgument& error) {
      answer = std::string{"!"} + error.what();
    }
  answer = exchange.text_from_first("profile", answer);
  if (answer.starts_with('!')) throw InvalidArgument(answer.substr(1));
  if (answer.empty()) return {};
  const std::size_t end = answer.find('\n');
  return content_of({answer.substr(0, end), answer.substr(end + 1)},
                    std::string{word_for(network)});
}

MachineView agree_on_machine(StoreExchange& exchange, const Process& own,
                             const Settings& settings) {
  const std::string own_host = host_identity();
  const auto places = exchange.gather_text("host", own_host + '\n' + encode(own));
  ByRank<std::string> identities;
  ByRank<Process> processes;
  for (const std::string& place : places) {
    const auto end = std::min(place.find('\n'), place.size());
    identities.push_back(place.substr(0, end));
    processes.push_back(decode_process(place.substr(std::min(end + 1, place.size()))));
  }
  const Hosts hosts = hosts_of(identities.elements(), settings);

  const auto all = gather_answers(exchange, own_processors(), "processors");
  std::map<std::string, std::vector<Processors>> by_host;  // the processors of each rank there
  int position = 0;
  for (int peer = 0; peer < exchange.ranks(); ++peer) {
    auto& of_host = by_host[identities[Rank{peer}]];
    if (Rank{peer} == exchange.self()) position = static_cast<int>(of_host.size());
    of_host.push_back(all[Rank{peer}]);
  }
  const std::vector<Processors>& neighbours = by_host[own_host];
  double sharing_one = 1;  // ranks that share a processor where most do
  for (const auto& [name, ranks] : by_host)
    sharing_one = std::max(sharing_one, ranks_per_processor(ranks));
  const Machine machine = Machine::discover();
  const auto sharing = static_cast<int>(neighbours.size());
  const auto caches = exchange.from_first(
      "caches", Caches{chunk_bytes_for(machine, sharing), cached_buffers(machine, sharing)});
  const Settings own_settings = settings_at(position, settings);
  const Network network = agree_on_network(exchange, hosts, own_settings);
  const JobKey key = agree_on_key(exchange);
  ProfileContent profile = agree_on_profile(exchange, machine, network, settings);
  return {.hosts = hosts,
          .network = network,
          .key = key,
          .shares_cores = sharing_one > 1,
          .cores = hosts.most_on_a_host() / sharing_one,
          .chunk = caches.chunk,
          .cached_buffers = caches.buffers,
          .profile = std::move(profile),
          .oversubscribed = oversubscribed(neighbours),
          .free_core = has_free_cores(neighbours),
          .spare_processors = spare_core(machine, cpu_sets(neighbours), position),
          .position = position,
          .processes = std::move(processes)};
}

/// How plans are proven: where one rank refuses a call, all have to.
std::string settings_of_proofs(const Settings& settings) {
  return fmt::format("proofs of {} within {} ms{}, bits by {}", settings.prove ? "all" : "added",
                     settings.proof_limit.count(), settings.trust_long_proofs ? " or trusted" : "",
                     name_of(settings.reproducible));
}

/// Everything in a segment must agree between ranks, above all its layout, what peers store, how it
/// crosses the wire, and which calls are refused.
void agree_on_layout(StoreExchange& exchange, const SegmentLayout& layout,
                     const Settings& settings) {
  const std::string own =
      fmt::format("{} bytes for {} rails, {} bytes of unexpected messages, {} wire, {}",
                  layout.total().value(), settings.rails, settings.unexpected_messages.value(),
                  name_of(settings.wire), settings_of_proofs(settings));
  const auto all = exchange.gather_text("layout", own);
  for (int peer = 0; peer < exchange.ranks(); ++peer)
    if (const std::string& theirs = all[Rank{peer}]; theirs != own)
      throw Mismatch(
          fmt::format("rank {} and rank {} have different settings ({}, and {}): give all ranks "
                      "the same CAPSTAN_CHUNK, CAPSTAN_RAILS, CAPSTAN_UNEXPECTED_MESSAGES, "
                      "CAPSTAN_WIRE, CAPSTAN_PROVE, CAPSTAN_PROOF_LIMIT and "
                      "CAPSTAN_REPRODUCIBLE",
                      exchange.self().value(), peer, own, theirs));
}

/// Whether this rank can read the memory of all others, and write to it. All ranks try at once.
bool reaches_peers(StoreExchange& exchange, Transport& transport) {
  static constexpr std::uint64_t pattern = 0x6361'7073'7461'6e21;
  // Static, as peers may come late. They read the first word and write the second.
  static std::uint64_t probe[] = {pattern, 0};
  const auto reach = [&](Rank peer, std::uint64_t address) {
    std::uint64_t found = 0;
    return transport.read_remote(peer, address, &found, Bytes{sizeof found}) && found == pattern &&
           transport.write_remote(peer, address + sizeof pattern, &pattern, Bytes{sizeof pattern});
  };
  const auto all = gather_answers(exchange, reinterpret_cast<std::uint64_t>(probe), "probe");
  bool readable = true;
  for (int peer = 0; peer < exchange.ranks(); ++peer)
    readable = readable && (Rank{peer} == exchange.self() || reach(Rank{peer}, all[Rank{peer}]));
  return readable;
}

bool may_use_huge_pages(const Settings& settings) {
  return settings.huge_pages && can_collapse_pages();
}

/// Nothing is measured where the user's rules decide how calls run.
bool wants_autotuning(const Settings& settings) {
  return settings.autotune && settings.algorithm.empty();
}

/// Abilities that a rank may use only if all ranks have them and want them.
void agree_on_abilities(MachineView& machine, StoreExchange& exchange, Transport& transport,
                        const Settings& settings) {
  const std::array<std::uint8_t, 3> own{reaches_peers(exchange, transport),
                                        may_use_huge_pages(settings), wants_autotuning(settings)};
  std::array<std::uint8_t, 3> all{};
  exchange.run({.subject = "abilities", .count = own.size()}, own.data(), all.data());
  machine.reads_peers = all[0] != 0;
  machine.huge_pages = machine.reads_peers && all[1] != 0;  // they help readers only
  machine.autotunes = all[2] != 0;
}

/// A warning of rank 0 where the default binding slows the program's own threads; for
/// CAPSTAN_LOG=info also how this rank has started, and what all ranks have found and agreed on.
void log_start(Rank self, const MachineView& machine, const Settings& settings) {
  const bool tells_all = log().shows(Log::Level::info);
  if (!tells_all && self != Rank{0}) return;
  const Hosts& hosts = machine.hosts;
  const auto yes = [](bool is) { return is ? "yes" : "no"; };
  const Process own = Process::own();
  const auto here = std::ranges::count(machine.processes, own.host, &Process::host);
  const auto ranks = static_cast<std::size_t>(machine.threads ? hosts.ranks() : here);
  const RankBinding binding = RankBinding::of_this_process(ranks, machine.threads);
  if (!tells_all && slows_threads(binding))
    log().warn("rank 0 of {}: {}", hosts.ranks(), binding_note(binding));
  log().info("rank {} of {}: capstan {}, {}, {}", self.value(), hosts.ranks(), version(),
             machine.threads ? "a thread" : to_string(own), binding_note(binding));
  if (self != Rank{0}) return;
  log().info("hosts: {}{}{}", hosts.count(),
             hosts.single() ? "" : fmt::format(", {} between them", word_for(machine.network)),
             machine.shares_cores ? "; ranks share cores" : "");
  log().info("single copy: {}; huge pages: {}; blocks of {}", yes(machine.reads_peers),
             yes(machine.huge_pages), readable(machine.chunk));
  log().info("choices: {}{}{}", settings.algorithm.empty() ? "by the model" : "by rules first",
             machine.profile.host.measured ? ", a profile" : "",
             machine.autotunes ? ", the autotuner" : "");
}

/// A rank of a world. It sleeps on the transport of the world, also for all groups made from it.
Member make_member(std::unique_ptr<Transport> transport, Rank self, const SegmentLayout& layout,
                   const MachineView& machine, const Settings& settings) {
  log_start(self, machine, settings);
  ByRank<int> world_ranks(machine.hosts.ranks());
  std::iota(world_ranks.begin(), world_ranks.end(), 0);
  const std::shared_ptr<Transport> shared = std::move(transport);
  Engine::Shared own{
      std::make_shared<Progress>(
          shared, Progress::Options{machine.oversubscribed, machine.spare_processors,
                                    machine.free_core, self, machine.processes, settings.timeout}),
      std::make_shared<shared::SharedMemory>(settings.buffer_limit)};
  if (!machine.threads)
    publish(control_of(shared->segment().data()).job,
            {machine.key.mark(), self.value(), machine.hosts.ranks(), ::getpid(),
             other_hosts(machine.processes, self)});
  auto engine = std::make_unique<Engine>(std::move(own), shared, std::move(world_ranks), self,
                                         layout, machine, settings);
  engine->prepare_first_calls();
  return {std::move(engine)};
}

}  // namespace

Member build_world(StoreExchange exchange, const Settings& common) {
  const Process own = Process::own();
  exchange.introduce(to_string(own));
  exchange.barrier("joined");
  MachineView machine = agree_on_machine(exchange, own, common);
  const Settings settings = settings_at(machine.position, common);
  const SegmentLayout layout = segment_layout(machine.hosts, machine, settings);
  agree_on_layout(exchange, layout, settings);

  auto transport = make_transport(exchange.self(), machine.hosts, {machine.network, machine.key},
                                  layout.total(), settings);
  const auto addresses = exchange.gather("address", transport->address());
  transport->connect(addresses.elements(), exchange.deadline());
  agree_on_abilities(machine, exchange, *transport, settings);
  exchange.barrier("connected");
  return make_member(std::move(transport), exchange.self(), layout, machine, settings);
}

void check_times(const Settings& settings) {
  constexpr std::chrono::milliseconds none{0};
  if (settings.timeout <= none || settings.join_timeout <= none)
    throw InvalidArgument(
        fmt::format("timeout = {} ms, join_timeout = {} ms: both must be above 0; for no limit "
                    "pass std::chrono::milliseconds::max()",
                    settings.timeout.count(), settings.join_timeout.count()));
}

std::vector<Member> make_thread_world(int ranks, const Settings& settings) {
  check_times(settings);
  constexpr int most = 1024;  // what they map of each other grows by the square
  if (ranks < 1 || ranks > most)
    throw InvalidArgument(fmt::format("a world of {} threads: 1 to {} are possible", ranks, most));
  const Machine machine = Machine::discover();
  const std::size_t processors = own_processors().count();
  const bool oversubscribed = processors < static_cast<std::size_t>(ranks);
  const Hosts hosts = virtual_hosts(ranks, settings);
  const MachineView view{.threads = true,
                         .hosts = hosts,
                         .shares_cores = oversubscribed,
                         .cores = static_cast<double>(processors) / hosts.count(),
                         .chunk = ranks > 1 ? chunk_bytes_for(machine, ranks) : Bytes{0},
                         .reads_peers = true,
                         .huge_pages = ranks > 1 && may_use_huge_pages(settings),
                         .autotunes = wants_autotuning(settings),
                         .cached_buffers = cached_buffers(machine, ranks),
                         .oversubscribed = oversubscribed,
                         .free_core = processors >= 2 * static_cast<std::size_t>(ranks),
                         .processes = ByRank<Process>(ranks)};
  const SegmentLayout layout = segment_layout(view.hosts, view, settings);
  std::vector<Member> members;
  for (auto& transport : make_transports_of_threads(view.hosts, layout.total(), settings))
    members.push_back(make_member(std::move(transport), Rank{static_cast<int>(members.size())},
                                  layout, view, settings));
  return members;
}

}  // namespace capstan
