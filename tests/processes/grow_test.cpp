// SPDX-License-Identifier: Apache-2.0

// Processes that die or stop while communicators shrink and grow, and while new ranks join: those
// that are left agree, grow to their old number and go on.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/processes/processes.hpp"
#include "tests/sanitizers.hpp"

namespace capstan {
namespace {

/// GROW_SEEDS seeds from GROW_FIRST_SEED on, for those who search for longer than the suite may.
int number_in(const char* variable, int usual) {
  const char* const asked = std::getenv(variable);
  return asked ? std::atoi(asked) : usual;
}

struct Links {
  const char* name;
  const char* hosts;
  const char* network;
};

class Growing : public ::testing::TestWithParam<Links> {};
INSTANTIATE_TEST_SUITE_P(Over, Growing,
                         ::testing::Values(Links{"SharedMemory", "1", "auto"},
                                           Links{"Tcp", "4", "tcp"},
                                           Links{"TcpTwoEach", "2", "tcp"},
                                           Links{"Ofi", "4", "ofi"}),
                         [](const auto& test) { return test.param.name; });

/// Four members by a launcher, and four processes that nothing but the name connects with them.
/// Nothing is left to a time-out: it is longer than the launcher's limit.
constexpr const char* script = R"(
name="$1" seed="$2"
for number in 4 5 6 7; do
  "$WORKER" spare "$number,$seed,$name" & spares="$spares $!"
done
"$CAPSTAN" run -n 4 --keep-going --timeout 120 -- "$WORKER" grow "$seed,$name"
kill $spares 2>/dev/null
wait)";

TEST_P(Growing, ProcessesGoOnWhateverDiesOrStops) {
  const int first = number_in("GROW_FIRST_SEED", 0);
  const int count = number_in("GROW_SEEDS", sanitized ? 2 : 4);
  for (int seed = first; seed < first + count; ++seed) {
    const std::string name = fmt::format("{} of {}", seed, ::getpid());
    const CommandResult result = run_command({"sh", "-c", script, "sh", name, std::to_string(seed)},
                                             {{"WORKER", WORKER_PROGRAM},
                                              {"CAPSTAN", CAPSTAN_PROGRAM},
                                              {"CAPSTAN_VIRTUAL_HOSTS", GetParam().hosts},
                                              {"CAPSTAN_NETWORK", GetParam().network},
                                              {"CAPSTAN_TIMEOUT", "900"},
                                              {"CAPSTAN_JOIN_TIMEOUT", "900"}});
    EXPECT_EQ(occurrences(result.output, "done\n"), 4) << "seed " << seed << "\n" << result.output;
    if (std::getenv("GROW_SEEDS")) fmt::print("seed {}:\n{}\n", seed, result.output);
  }
  EXPECT_THAT(leftovers(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace capstan
