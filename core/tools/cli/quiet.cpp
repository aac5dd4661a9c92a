// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/quiet.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "core/tools/cli/options.hpp"
#include "core/tools/launcher/complain.hpp"
#include "perf/measure/duration_text.hpp"
#include "perf/measure/folded.hpp"

namespace capstan::cli {
namespace {

template <class... Values>
void say(fmt::format_string<Values...> format, Values&&... values) {
  const std::string text = fmt::format(format, std::forward<Values>(values)...);
  launcher::say_on_stderr(perf::folded(text, perf::line_width()));
}

MachineReading look() {
  std::this_thread::sleep_for(std::chrono::duration<double>{moment_to_look});
  return read_machine();
}

}  // namespace

void add_quiet_options(CLI::App& command, QuietOptions& options, bool keeps_results) {
  command
      .add_option_function<double>(
          "--patience", [&options](const double& seconds) { options.patience = seconds; },
          "How long to wait for other programs to leave the machine alone, in seconds (default: as "
          "long as measuring takes, 10 at most)")
      ->check(seconds_to_wait());
  if (keeps_results)
    command.add_flag("--despite-load", options.accepts_load,
                     "Do not wait, and let results count although other programs run");
}

void await_quiet_machine(const char* command, const QuietOptions& options, double seconds,
                         bool silent) {
  constexpr double most = 10;
  if (options.accepts_load) return;
  MachineState state = await_quiet(0, look);
  if (!state.busy()) return;
  const double patience = options.patience.value_or(std::min(seconds, most));
  if (!silent && patience > 0)
    say("{}: the machine is {}; waits for {} at most\n", command, state.text(),
        perf::duration_text(patience));
  if (patience > 0) state = await_quiet(patience, look);
  if (state.busy() && !silent)
    say("{}: {} {}: what is measured now may be worth nothing\n", command,
        patience > 0 ? "still" : "the machine is", state.text());
}

}  // namespace capstan::cli
