// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/perf/options.hpp"

#include <algorithm>
#include <chrono>

#include "core/tools/cli/host_options.hpp"
#include "core/tools/cli/numbers.hpp"
#include "core/tools/cli/options.hpp"
#include "core/tools/cli/perf/messages.hpp"

namespace capstan::cli {
namespace {

std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  for (const Collective collective : all_collectives()) names.emplace_back(name_of(collective));
  return names;
}

/// Names of MPI, NCCL and OSU: "allreduce", "bcast", "reducescatter", "latency".
std::string own_name(std::string& name) {
  for (const char* of_messages : {"latency", "bandwidth", "bidirectional", "rate"})
    if (name == of_messages) name = messages_name;
  const auto bare = [](std::string text) {
    std::erase(text, '_');
    return text == "bcast" ? std::string{"broadcast"} : text;
  };
  for (const std::string& own : collective_names())
    if (bare(own) == bare(name)) name = own;
  return {};
}

constexpr const char* perf_footer =
    "Examples:\n"
    "  capstan perf all_reduce -n 4 -b 8 -e 256M --chart all_reduce.html\n"
    "  capstan perf all_reduce -n 4 --types all --ops all -b 1k -e 1k\n"
    "  capstan perf all_gather -n 4 --buffers allocated\n"
    "  capstan perf all_reduce -n 8 --device cuda\n"
    "  capstan perf messages -n 2 -b 1 -e 4M\n"
    "  capstan perf all_reduce -n 4 -N 10 -S 1 --json=all.json\n"
    "  capstan perf all_reduce -n 2 --many 100 --sizes 4K    and with --fused\n"
    "  capstan perf all_reduce -n 2 -b 1M -e 16M --overlap computing --percentiles\n"
    "  capstan perf all -t 4 --sizes 64K --off-cache\n"
    "  capstan perf all_reduce -n 4 -b 1M -e 1M --trace steps.svg\n"
    "  mpirun -n 4 capstan perf all_reduce -e 1M --algorithm ring\n"
    "  capstan perf all -n 2,4 --against openmpi,mpich,gloo -e 64M --chart peers.html\n"
    "  scripts/setup --peers; capstan perf all -n 2 --against all    Open MPI 5, too\n"
    "  capstan perf all,messages -n 2 --both-places --against all -e 16M\n"
    "  capstan perf all_reduce --hosts node1:1,node2:1 --against openmpi,mpich,gloo -e 64M\n\n"
    "size    bytes of the largest buffer\n"
    "by      who decided: a rule, the profile, trials of the first calls, the model\n"
    "time    median over the rounds, of the slowest rank\n"
    "spread  interquartile range, as a share of the median\n"
    "alone   time of calls that all ranks begin together (with --skew at random\n"
    "        times) after 20 us of quiet, not in a row\n"
    "algbw   size / time\n"
    "busbw   bandwidth that each link must carry at least, as in nccl-tests: algbw\n"
    "        times 2(n-1)/n for all_reduce, (n-1)/n for collectives of blocks, 1\n"
    "        for the others\n"
    "call min to max: times of single calls of all ranks (--percentiles)\n"
    "overlap share of the shorter one of call and computation that took no time; start:\n"
    "        until the start_ form returned; computed, both: the computation alone and\n"
    "        beside the call (--overlap)\n"
    "#!      what casts doubt on the line above: not settled (trials still went on:\n"
    "        raise --seconds), unsteady (a spread above 50 %), or a busy machine,\n"
    "        on which the line has been measured twice already\n\n"
    "--device: in a row calls follow one another in the stream; alone, each is waited for.\n"
    "start-up (in JSON start_up) counts from the start of the process, with the loading of its\n"
    "libraries, to the communicator and to the end of the first all-reduce of 8 bytes.\n\n"
    "--against starts all libraries, binds each rank to its own core (not with --unbound), and\n"
    "runs one library at a time, in turns. Where Capstan is faster in a quarter of the rounds "
    "and a peer in another\n"
    "quarter, three times as many rounds follow. Between hosts all libraries use TCP on the\n"
    "interface that CAPSTAN_INTERFACE chooses (CAPSTAN_NETWORK gives Capstan alone another\n"
    "network), and the libraries and these programs must be at the same paths on all hosts.\n"
    "Where cores move while a cell is measured, as those of virtual machines do, it is measured\n"
    "again; the summary tells near and far cores apart.\n"
    "Of messages the time is that of one, and --window says how many are under way for\n"
    "bandwidth and bidirectional.\n"
    "bound is a copy of each rank's share of the bytes, or between hosts bare sockets.\n"
    "Capstan's algorithm and protocol are printed beside lost cells, and always in JSON.";

/// As nccl-tests has them: -S 1.
void add_switch(CLI::App& command, const char* names, bool& on, const std::string& what) {
  command
      .add_option_function<int>(
          names, [&on](const int& value) { on = value != 0; }, what + ": 1; 0: do not")
      ->check(number_from(0, 1))
      ->default_str("0");
}

void add_what_to_measure(CLI::App& command, PerfOptions& options) {
  auto names = collective_names();
  names.emplace_back(messages_name);
  names.emplace_back("all");
  command
      .add_option("collective", options.collectives,
                  "Collective to measure, or messages between pairs of ranks (also by the names "
                  "latency, bandwidth, bidirectional, rate); a list, or all: with --against the "
                  "seven that MPI libraries share, and messages may stand beside them")
      ->delimiter(',')
      ->transform(CLI::Validator{own_name, ""})
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  command
      .add_option("-n,-g,--ranks", options.ranks,
                  "Ranks to start (default: one per core of this host, or all places of --hosts); "
                  "not under mpirun or srun. Of a list, one job after the other")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(number_from(1, 4096));
  add_host_options(command, options.where);
  add_quiet_options(command, options.quiet, false);
  command.add_option("-b,--min-bytes", options.smallest, "Smallest message")->capture_default_str();
  command.add_option("-e,--max-bytes", options.largest, "Largest message")->capture_default_str();
  command.add_option("-f,--factor", options.factor, "Factor between sizes")
      ->check(number_from(2, 1 << 20))
      ->capture_default_str();
  command.add_option("-i,--step", options.step,
                     "Bytes from one size to the next, instead of --factor");
  command.add_option("-d,--types", options.types, "Element types, comma-separated, or all")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command.add_option("-o,--ops", options.ops, "Operations, comma-separated, or all")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command.add_option(
      "-a,--algorithm", options.algorithm,
      "Force an algorithm (`capstan verify` lists them), one with a protocol such as "
      "direct/staged, or rules by size such as 0-4k:flat,4k-inf:direct");
  command.add_option("-r,--root", options.root, "Root of rooted collectives, or all of them")
      ->capture_default_str();
}

/// How a program makes the calls.
void add_forms(CLI::App& command, PerfOptions& options) {
  perf::MeasureOptions& measure = options.measure;
  command
      .add_option("-t,--threads", options.threads,
                  "So many ranks as threads of one process, instead of processes")
      ->check(number_from(1, 1024));
  command
      .add_option("--groups", measure.groups,
                  "Divide the ranks into so many groups that make the same calls at once; times "
                  "of the slowest, bandwidths of one group")
      ->check(number_from(1, 4096))
      ->capture_default_str();
  command.add_flag("--start", options.starts, "Call the start_ form and wait for it");
  command
      .add_option("-m,--many", measure.calls.many,
                  "So many calls under way at once, each with buffers of its own, by the start_ "
                  "forms; times are per call")
      ->check(number_from(1, 4096))
      ->capture_default_str();
  command.add_flag("--fused", options.fuses,
                   "All buffers of --many in one all_reduce_fused; times are per buffer");
  command
      .add_option_function<std::string>(
          "--overlap",
          [&measure](const std::string& how) {
            measure.beside = how == "sleeping" ? perf::Beside::sleeping
                             : how == "helped" ? perf::Beside::helped
                                               : perf::Beside::computing;
          },
          "The share of a computation of the same length that hides a call, between start_ and "
          "wait (computing), beside the progress thread (helped), or of a sleep (sleeping)")
      ->check(CLI::IsMember({"computing", "helped", "sleeping"}));
  command.add_flag("--off-cache", measure.calls.off_cache,
                   "Each call takes other buffers, so that no cache has them");
  command
      .add_option("-u,--unalign", measure.calls.offset,
                  "Let buffers begin so many elements behind an aligned address")
      ->check(number_from(0, 4096))
      ->capture_default_str();
}

void add_how_to_measure(CLI::App& command, PerfOptions& options) {
  auto* const in_place =
      command.add_flag("--in-place", options.in_place, "Use the same memory for input and output");
  command
      .add_flag("--both-places", options.both_places,
                "Measure each line with two buffers and then in place, side by side")
      ->excludes(in_place);
  command
      .add_option_function<std::string>(
          "--buffers",
          [&options](const std::string& name) {
            options.measure.buffers =
                name == "plain" ? perf::Buffers::plain : perf::Buffers::allocated;
          },
          "Memory of the buffers: plain, or allocated by the library. With --against those of "
          "other libraries stay plain")
      ->check(CLI::IsMember({"plain", "allocated"}))
      ->default_str("plain");
  command
      .add_option("--device", options.measure.vendor,
                  "Buffers in memory of a GPU, cuda or hip: of the machine's GPUs each rank takes "
                  "the next one, and several share one where there are fewer. Calls are put into "
                  "a stream")
      ->check(CLI::IsMember(std::vector<std::string>{"cuda", "hip"}))
      ->each([&options](const std::string&) { options.measure.buffers = perf::Buffers::device; });
  command
      .add_option(
          "-w,--warmup", options.measure.warm_up,
          "Calls before each size is measured, beside those until the autotuner has decided")
      ->check(number_from(0, 1 << 20))
      ->capture_default_str();
  command
      .add_option("--rounds", options.measure.rounds,
                  "Rounds, as far as --seconds has room for them; the median of their times counts")
      ->check(number_from(1, 1000))
      ->capture_default_str();
  command
      .add_option("-N,--cycles", options.cycles,
                  "Measure all lines so many times, one cycle after the other, and print each")
      ->check(number_from(1, 1 << 20))
      ->capture_default_str();
  command
      .add_option("--seconds", options.measure.seconds,
                  "How long each size is measured, about; before that, calls run until the "
                  "autotuner has decided, for eight times as long at most. With --against so "
                  "long by each library, in three rounds at least")
      ->check(seconds_to_measure())
      ->capture_default_str();
  command
      .add_option("--iterations,--iters", options.measure.iterations,
                  "Exactly so many calls in each of --rounds, instead of as many as --seconds has "
                  "room for")
      ->check(number_from(1, 1 << 30));
  command.add_flag("-F,--percentiles", options.measure.percentiles,
                   "Time each call of each rank by itself, which costs some 20 ns, and print "
                   "least, mean, percentiles and greatest over all of them");
  command
      .add_option("-W,--window", options.measure.window,
                  "Messages under way at the same time, where bandwidths are measured")
      ->check(number_from(1, 4096))
      ->capture_default_str();
  command.add_option("-T,--timeout", options.timeout, "End the job after so many seconds")
      ->check(positive_seconds());
  command.add_flag("!--no-check", options.measure.check, "Do not check results");
  command
      .add_option_function<int>(
          "-c,--check", [&options](const int& check) { options.measure.check = check != 0; },
          "Check results: 1, or 0 like --no-check")
      ->check(number_from(0, 1))
      ->default_str("1");
  command
      .add_option("--min-busbw", options.least_bandwidth,
                  "End with status 1 if the mean bus bandwidth of all lines is less, in GB/s")
      ->check(number_from(0.0, 1e9));
  add_json_option(command, options.json);
  command
      .add_option_function<std::string>(
          "--format",
          [&options](const std::string& name) {
            options.format = name == "csv"        ? perf::TableFormat::csv
                             : name == "markdown" ? perf::TableFormat::markdown
                                                  : perf::TableFormat::text;
          },
          "The table as text, csv or markdown")
      ->check(CLI::IsMember({"text", "csv", "markdown"}))
      ->default_str("text");
  add_switch(command, "-S,--timestamps", options.timestamps,
             "Say beside each line when it was measured, in UTC");
  add_switch(command, "-M,--memory", options.memory_use,
             "Say at the end how much memory the largest process has had resident");
  command.add_flag("--list-ranks", options.lists_ranks,
                   "Print the host, process, core and device of each rank; JSON always has them");
  command
      .add_option("--against", options.against,
                  "Compare with these libraries, in turns on the same cores: openmpi, mpich, gloo; "
                  "openmpi5, mpich5, intelmpi, from scripts/setup --peers; or all that are here")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      .add_option("--sizes", options.sizes,
                  "These sizes, comma-separated, instead of a range (with --against: of 8, 64, "
                  "1K ... 256M)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_flag("!--unbound", options.measure.bind,
                   "With --against: ranks run on the cores that the system gives them");
  command
      .add_option_function<int>(
          "--skew",
          [&options](const int& microseconds) {
            options.measure.skew = std::chrono::microseconds{microseconds};
          },
          "Ranks come to calls that are alone at random times within so many microseconds. The "
          "time of a rank counts from the last one on; the greatest mean counts, so that a "
          "broadcast to several ranks seems short")
      ->check(number_from(0, 10000));
  command.add_option("--chart", options.chart,
                     "Write an HTML page of diagrams, which needs no network to be read");
  command.add_option("--trace", options.trace,
                     "Afterwards record a few calls of each size with every step of every rank, "
                     "and write a trace (trace-event format, for ui.perfetto.dev) or, with .svg, "
                     "a picture of the last call");
}

}  // namespace

void add_perf_options(CLI::App& command, PerfOptions& options) {
  add_what_to_measure(command, options);
  add_forms(command, options);
  add_how_to_measure(command, options);
  command.footer(perf_footer);
}

}  // namespace capstan::cli
