// One rank of the multi-process tests. What it does is its first argument; it reports by its exit
// status and, for errors that a test expects, by a line on standard output.

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "algorithms/registry.hpp"
#include "core/cli/perf/cell.hpp"
#include "core/communicator.hpp"

namespace capstan {
namespace {

constexpr std::size_t counts[] = {0, 1, 2, 3, 7, 14, 15, 100, 1000, 4099, 70001};

bool correct(Communicator& world, DataType type, ReduceOp op, std::size_t count) {
  cli::Cell cell{.type = type, .op = op, .shape = {.count = Elements{count}}};
  const bool outside = cli::wrong_values(world, cell) == 0;
  cell.in_place = true;
  return cli::wrong_values(world, cell) == 0 && outside;
}

/// Every type, operation and count, in place and not.
int all_reduce_everything(Communicator& world) {
  for (const DataType type : all_data_types())
    for (const ReduceOp op : all_reduce_ops())
      for (const std::size_t count : counts)
        if (!correct(world, type, op, count)) {
          fmt::print("wrong: rank {} {} {} {}\n", world.rank(), name_of(type), name_of(op), count);
          return 1;
        }
  return 0;
}

/// Calls of all sizes back to back, now and then one rank dawdles.
int random_delays(Communicator& world) {
  unsigned state = 12345u + static_cast<unsigned>(world.rank());
  for (int i = 0; i < 400; ++i) {
    state = state * 1664525u + 1013904223u;
    if (state >> 28 == 0) std::this_thread::sleep_for(std::chrono::milliseconds{state >> 24 & 7});
    if (!correct(world, DataType::i32, ReduceOp::sum, counts[static_cast<std::size_t>(i) % 11]))
      return 1;
  }
  return 0;
}

/// All-reduces for ever; the rank named in the environment kills or stops itself on the way.
int loop_until_error(Communicator& world, std::size_t count, int victim, int signal) {
  std::vector<float> data(count, 1);
  for (int i = 0;; ++i) {
    if (world.rank() == victim && i == 50) ::raise(signal);
    world.all_reduce(std::span{data}, ReduceOp::max);
  }
}

int run(const std::string& what, const char* argument) {
  if (what == "silent") {  // a rank that never joins
    if (std::string{std::getenv("CAPSTAN_RANK")} == argument) {
      std::this_thread::sleep_for(std::chrono::seconds{5});
      return 0;
    }
  }
  Communicator world = Communicator::from_environment();
  if (what == "everything") return all_reduce_everything(world);
  if (what == "delays") return random_delays(world);
  if (what == "kill")
    return loop_until_error(world, std::strtoul(argument, nullptr, 10), 1, SIGKILL);
  if (what == "stop")
    return loop_until_error(world, std::strtoul(argument, nullptr, 10), 1, SIGSTOP);
  if (what == "leave") {
    if (world.rank() == 1) return 0;
    return loop_until_error(world, 10, -1, 0);
  }
  if (what == "mismatch") {
    std::vector<float> data(world.rank() == 1 ? 20 : std::strtoul(argument, nullptr, 10));
    world.all_reduce(std::span{data});
    return 0;
  }
  if (what == "rank") {
    fmt::print("{} of {}\n", world.rank(), world.size());
    return 0;
  }
  return 2;
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  try {
    return capstan::run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
  } catch (const capstan::PeerLost& error) {
    fmt::print("PeerLost {}: {}\n", error.lost().value(), error.what());
  } catch (const capstan::Mismatch& error) {
    fmt::print("Mismatch: {}\n", error.what());
  } catch (const capstan::TimedOut& error) {
    fmt::print("TimedOut: {}\n", error.what());
  } catch (const capstan::Error& error) {
    fmt::print("Error: {}\n", error.what());
  }
  return 0;  // an expected error: the test reads which
}
