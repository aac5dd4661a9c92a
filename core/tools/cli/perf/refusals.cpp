// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/perf/refusals.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "capstan/error.hpp"
#include "core/tools/cli/host_options.hpp"
#include "core/tools/cli/options.hpp"
#include "core/tools/cli/perf/messages.hpp"

namespace capstan::cli {
namespace {

bool has_buffers(Collective collective) {
  return collective != Collective::barrier;
}

void refuse_by_collective(const CLI::App& command, const PerfOptions& options) {
  const std::vector<Collective> all = collectives_of(options);
  const std::string subject =
      all.size() == 1 ? fmt::format("{} has no", name_of(all.front())) : "none of these has a";
  const auto refuse = [&](bool (*has)(Collective), std::initializer_list<const char*> names,
                          const char* what) {
    if (std::ranges::none_of(all, has))
      refuse_options(command, names, fmt::format("{} {}: leave it out", subject, what));
  };
  refuse(has_root, {"--root"}, "root");
  refuse(reduces, {"--ops"}, "operation");
  refuse(has_buffers,
         {"--min-bytes", "--max-bytes", "--factor", "--sizes", "--types", "--in-place",
          "--both-places", "--step", "--device", "--off-cache", "--unalign"},
         "buffers");
  refuse(perf::may_be_in_place, {"--in-place", "--both-places"}, "call in place");
}

void check_fused(const CLI::App& command, const PerfOptions& options) {
  if (collectives_of(options) != std::vector{Collective::all_reduce})
    throw InvalidArgument("--fused: all_reduce alone has a call for many buffers");
  if (options.measure.calls.many < 2)
    throw InvalidArgument("--fused: say how many buffers there are: --many 100");
  refuse_options(command, {"--in-place", "--both-places", "--off-cache", "--trace", "--device"},
                 "not with --fused, whose calls are in place");
}

void refuse_against(const CLI::App& command, const PerfOptions& options) {
  refuse_options(
      command,
      {"--factor",    "--step",    "--types",      "--ops",     "--algorithm", "--root",
       "--warmup",    "--format",  "--list-ranks", "--trace",   "--fused",     "--overlap",
       "--groups",    "--threads", "--iterations", "--unalign", "--timeout",   "--min-busbw",
       "--off-cache", "--cycles",  "--timestamps", "--memory"},
      "not with --against, which compares whole calls of processes, f32, sums and root 0: leave it "
      "out, or measure Capstan alone");
  if (!sends_messages(options)) return;
  refuse_options(command, {"--start", "--many"},
                 "not for messages, of which --window says how many are under way");
  if (std::ranges::all_of(options.against, [](const auto& peer) { return peer == "gloo"; }))
    throw InvalidArgument(
        "none of these libraries has messages here: compare with openmpi, mpich, openmpi5, mpich5 "
        "or intelmpi, or leave messages out");
}

void add_collective(std::vector<perf::Subject>& subjects, Collective collective,
                    const PerfOptions& options) {
  const bool in_place = options.in_place || options.both_places;
  if (!options.in_place || collective == Collective::broadcast) subjects.push_back({collective});
  if (in_place && perf::comparable_in_place(collective)) subjects.push_back({collective, true});
}

/// The collectives that MPI libraries share.
constexpr Collective shared_collectives[] = {
    Collective::all_reduce,     Collective::broadcast,  Collective::reduce, Collective::all_gather,
    Collective::reduce_scatter, Collective::all_to_all, Collective::barrier};

}  // namespace

void choose_form(PerfOptions& options) {
  perf::MeasureOptions& measure = options.measure;
  const bool started =
      options.starts || measure.calls.many > 1 || measure.beside != perf::Beside::nothing;
  if (started && measure.buffers != perf::Buffers::device)
    measure.calls.form = perf::Calling::started;
  if (!options.fuses) return;
  measure.calls.form = perf::Calling::fused;
  options.in_place = true;
}

std::vector<perf::Subject> compared_subjects(const PerfOptions& options) {
  std::vector<perf::Subject> subjects;
  for (const std::string& name : options.collectives) {
    if (name == "all")
      for (const Collective each : shared_collectives) add_collective(subjects, each, options);
    else if (name == messages_name)
      for (const perf::MessagePattern each : perf::message_patterns)
        subjects.push_back({.messages = each});
    else
      add_collective(subjects, *collective_named(name), options);
  }
  if (subjects.empty())
    throw InvalidArgument(
        "--in-place: other libraries leave the results of these calls elsewhere: choose of "
        "all_reduce, reduce, all_gather, all_to_all, scan and exscan");
  return subjects;
}

void refuse_idle_options(const CLI::App& command, const PerfOptions& options) {
  check_host_options(command, options.where);
  if (!options.sizes.empty())
    refuse_options(command, {"--min-bytes", "--max-bytes", "--factor", "--step"}, says_it_all);
  if (options.threads > 0)
    refuse_options(command, {"--ranks", "--hosts", "--hostfile", "--timeout"},
                   "not with --threads, which starts ranks in this process");
  if (sends_messages(options) && options.against.empty())
    return check_message_options(command, options);
  if (!sends_messages(options)) refuse_options(command, {"--window"}, "only for messages");
  if (options.measure.buffers == perf::Buffers::device)
    refuse_options(
        command,
        {"--buffers", "--algorithm", "--trace", "--against", "--start", "--fused", "--overlap"},
        "not with --device, whose calls go by the device's own executor or by pinned memory");
  if (!options.against.empty()) return refuse_against(command, options);
  refuse_options(command, {"--unbound"}, "only with --against");
  if (!options.step.empty())
    refuse_options(command, {"--factor"}, "--step says it: leave this out");
  refuse_by_collective(command, options);
  if (options.fuses) check_fused(command, options);
  if (options.measure.groups > 1)
    refuse_options(command, {"--trace"}, "not with --groups, whose calls run side by side");
  if (options.measure.beside != perf::Beside::nothing)
    refuse_options(command, {"--both-places"}, "not with --overlap: choose one");
}

}  // namespace capstan::cli
