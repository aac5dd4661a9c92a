// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "capstan/error.hpp"
#include "core/engine/run/engine.hpp"
#include "core/tools/cli/commands.hpp"
#include "core/tools/cli/commit.hpp"
#include "core/tools/cli/explain/chart.hpp"
#include "core/tools/cli/explain/report.hpp"
#include "core/tools/cli/numbers.hpp"
#include "core/tools/cli/options.hpp"
#include "core/tools/cli/simulate/scenario.hpp"
#include "core/tools/cli/sizes.hpp"
#include "perf/measure/folded.hpp"
#include "perf/measure/report.hpp"
#include "perf/report/page.hpp"
#include "topology/machine.hpp"

namespace capstan::cli {
namespace {

struct ExplainOptions {
  std::string collective = "all_reduce", bytes = "1M";
  int ranks = 0;
  std::string hosts, type = "f32", op = "sum";
  int root = 0;
  std::string rules, profile;
  bool in_order = false;
  std::string reproducible;
  std::string memory = "host", device_link;
  std::string json;
  int schedule = -1;
  std::string svg, chart, topology, fabric;
};

Hosts hosts_of(const ExplainOptions& options) {
  if (!options.hosts.empty()) return parse_hosts(options.hosts);
  return options.ranks > 0 ? options.ranks : static_cast<int>(Machine::discover().cores().size());
}

Call call_of(const ExplainOptions& options, int ranks) {
  const auto type = data_type_named(options.type);
  const auto op = reduce_op_named(options.op);
  const Bytes bytes = parse_size(options.bytes, "--bytes");
  if (!type) throw InvalidArgument(fmt::format("--type {}: no such type; try f32", options.type));
  if (!op) throw InvalidArgument(fmt::format("--op {}: no such operation; try sum", options.op));
  if (options.root >= ranks)
    throw InvalidArgument(
        fmt::format("--root {}: there are {} ranks, from 0", options.root, ranks));
  return make_call(*collective_named(options.collective), *type, *op, options.root, bytes, ranks);
}

/// None: calls in memory of the host.
std::optional<DeviceLink> devices_of(const ExplainOptions& options, const Hosts& hosts) {
  if (options.memory == name_of(MemoryKind::host)) {
    if (options.device_link.empty()) return std::nullopt;
    throw InvalidArgument("--device-link: it is about --memory device");
  }
  if (!hosts.single())
    throw InvalidArgument("--memory device: on one host, as devices reach each other there alone");
  return options.device_link.empty() ? DeviceLink::memory : device_link_named(options.device_link);
}

Question question_of(const ExplainOptions& options) {
  Settings settings = Settings::from_environment();
  if (!options.rules.empty()) settings.algorithm = options.rules;
  if (!options.profile.empty()) settings.profile = options.profile;
  if (!options.reproducible.empty()) settings.set("reproducible", options.reproducible);
  const Hosts hosts = hosts_of(options);
  Question question{.call = call_of(options, hosts.ranks()),
                    .machine = expected_machine(hosts, settings),
                    .selection = {},
                    .commutative = !options.in_order,
                    .settings = settings};
  const auto devices = devices_of(options, hosts);
  if (devices) question.call.memory = MemoryKind::device;
  question.selection = selection_of(question.machine, settings, devices);
  question.autotuned = !devices && question.machine.autotunes &&
                       may_be_tuned(question.call, hosts, question.selection.links);
  return question;
}

/// Explains a call on a cluster that is not here, by simulation.
int explain_cluster(const CLI::App& command, const ExplainOptions& options,
                    const std::vector<std::string>& arguments) {
  refuse_options(
      command,
      {"--hosts", "--rules", "--profile", "--in-order", "--reproducible", "--schedule", "--memory",
       "--device-link"},
      "not with --topology or --fabric, which simulate a cluster that is not here: leave "
      "out one of them");
  if (options.ranks < 2)
    throw InvalidArgument("--topology and --fabric need --ranks: how many, from 2 on");
  SimulateOptions asked;
  asked.collective = options.collective;
  asked.bytes = options.bytes;
  asked.ranks = options.ranks;
  asked.type = options.type;
  asked.op = options.op;
  asked.root = options.root;
  asked.topology = options.topology;
  asked.fabric = options.fabric;
  asked.svg = options.svg;
  asked.chart = options.chart;
  asked.json = options.json;
  asked.explains = true;
  return run_simulate(asked, arguments);
}

int run_explain(const CLI::App& command, const ExplainOptions& options,
                const std::vector<std::string>& arguments) {
  if (!options.topology.empty() || !options.fabric.empty())
    return explain_cluster(command, options, arguments);
  if (options.ranks > most_ranks)
    throw InvalidArgument(fmt::format(
        "--ranks {}: from 1 to {} on this host; --topology or --fabric describe a cluster for more",
        options.ranks, most_ranks));
  if (!options.chart.empty()) report::require_charts("--chart");
  perf::check_writable(options.svg);
  perf::check_writable(options.chart);
  perf::check_writable(options.json);
  const Question question = question_of(options);
  const int ranks = question.hosts().ranks();
  if (options.schedule >= ranks)
    throw InvalidArgument(
        fmt::format("--schedule {}: there are {} ranks, from 0", options.schedule, ranks));
  if (!options.svg.empty() && ranks > most_drawn)
    throw InvalidArgument(fmt::format("--svg draws up to {} ranks, not {}", most_drawn, ranks));
  const Survey survey = question.proven_answer();
  if (prints_text(options.json)) perf::print_folded("{}", to_text(question, survey));
  write_json(options.json, to_json(question, survey));
  if (options.schedule >= 0)
    perf::print_folded("{}",
                       schedule_text(question, survey.decision.choice, Rank{options.schedule}));
  if (!options.svg.empty())
    perf::write_document(options.svg, space_time_svg(question, survey.decision.choice));
  if (!options.chart.empty())
    perf::write_document(options.chart,
                         chart_page(question, survey, report::origin(arguments, build_commit())));
  return survey.refusal.empty() ? 0 : 1;
}

constexpr const char* explain_footer =
    "Examples:\n"
    "  capstan explain all_reduce --bytes 1M\n"
    "  capstan explain all_reduce --bytes 64k -n 8 --chart page.html --schedule 0\n"
    "  capstan explain broadcast --bytes 4M --hosts 4x8\n"
    "  capstan explain all_reduce --bytes 1M -n 8 --memory device --device-link direct\n"
    "  capstan explain all_reduce --bytes 1M --topology dgx.xml --ranks 4096\n"
    "  capstan explain all_reduce -n 8 --rules 'all_reduce:0-64k ranks=2-8:flat,64k-inf:ring'\n\n"
    "Starts no ranks: it decides as ranks on this machine would, by the same function. A rule\n"
    "(CAPSTAN_ALGORITHM) comes before a profile (`capstan tune` writes one, CAPSTAN_PROFILE names\n"
    "it), a profile before the model of the machine. A program asks by Communicator::explain.\n"
    "With --topology or --fabric it simulates the call on a cluster instead, as `capstan "
    "simulate`\n"
    "does, and marks the candidates that cannot be the fastest without simulating them.\n\n"
    "latency    fixed costs: calls, flags, messages, first cache lines\n"
    "bandwidth  moving bytes\n"
    "reduction  combining them\n"
    "waiting    for ranks that are busy, and for memory that others read\n"
    "measured   by the profile, between the sizes that it knows; - where it knows nothing\n"
    "verdict    why a candidate was not taken\n\n"
    "Algorithms that were added (CAPSTAN_SCHEDULES) are proven at this size, as a call proves\n"
    "them. Exit status: 0, or 1 where the proof refuses the choice, so that the call would fail.";

}  // namespace

void add_explain_command(CLI::App& app, int& status, const std::vector<std::string>& arguments) {
  auto* command = app.add_subcommand("explain", "Show how a call would run, and why");
  const auto options = std::make_shared<ExplainOptions>();
  command->add_option("collective", options->collective, "Collective")
      ->check(CLI::IsMember(collectives_of_one_length()))
      ->capture_default_str();
  command->add_option("-b,--bytes", options->bytes, "Bytes of the largest buffer")
      ->capture_default_str();
  auto* ranks =
      command->add_option("-n,--ranks", options->ranks,
                          "Ranks on this host (default: one per core), or of the cluster");
  ranks->check(number_from(1, most_simulated_ranks));
  command
      ->add_option("--hosts", options->hosts,
                   "Over several hosts like this one: 2x3 (two of three ranks each), or the host "
                   "of each rank, such as 0,0,1,1,1")
      ->excludes(ranks);
  command->add_option("--topology", options->topology,
                      "On the cluster that this file describes: see `capstan simulate`");
  command->add_option("--fabric", options->fabric,
                      "On a cluster with this network: see `capstan simulate`");
  command->add_option("--type", options->type, "Type of the elements")->capture_default_str();
  command->add_option("--op", options->op, "Operation of reductions")->capture_default_str();
  command->add_option("--root", options->root, "Root of rooted collectives")
      ->check(number_from(0, most_simulated_ranks - 1))
      ->capture_default_str();
  command->add_flag("--in-order", options->in_order,
                    "The operation is not commutative: ranks keep their order");
  command->add_option("--reproducible", options->reproducible,
                      "What the bits of sums do not depend on: none, run, shape, placement or "
                      "rank_order (default: that of CAPSTAN_REPRODUCIBLE)");
  command->add_option("--rules", options->rules, "Rules instead of those of CAPSTAN_ALGORITHM");
  command->add_option("--profile", options->profile, "A profile instead of the usual one, or none");
  command
      ->add_option("--memory", options->memory,
                   "Memory that the buffers lie in: host, or device for calls by kernels")
      ->check(CLI::IsMember({"host", "device"}))
      ->capture_default_str();
  command
      ->add_option("--device-link", options->device_link,
                   "The farthest link between the devices: memory (all ranks share one, the "
                   "default), direct (NVLink, xGMI) or bus (PCIe)")
      ->check(CLI::IsMember({"memory", "direct", "bus"}));
  add_json_option(*command, options->json);
  command->add_option("--schedule", options->schedule, "Print the steps of this rank, too")
      ->check(number_from(0, most_ranks - 1));
  command->add_option("--svg", options->svg,
                      "Write a space-time diagram of the chosen schedule to this file");
  command->add_option("--chart", options->chart,
                      "Write all of it as an HTML page of diagrams to this file");
  command->footer(explain_footer);
  command->callback([options, command, &status, &arguments] {
    status = run_explain(*command, *options, arguments);
  });
}

}  // namespace capstan::cli
