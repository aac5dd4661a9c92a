// SPDX-License-Identifier: Apache-2.0
#include "tests/processes/soak/rank.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <typeinfo>

#include "capstan/communicator.hpp"
#include "capstan/error.hpp"
#include "perf/measure/data.hpp"

namespace capstan::soak {
namespace {

std::atomic<bool> shall_end = false;

/// In one write, so that lines of ranks never mix.
void say(std::string line) {
  std::ranges::replace(line, '\n', ' ');
  line += '\n';
  if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) ::_exit(1);
}

/// The kernel sends this process a signal, wherever it is then.
void signal_after(std::chrono::nanoseconds delay, int number) {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = number;
  timer_t timer{};
  const auto seconds = std::chrono::floor<std::chrono::seconds>(delay);
  const itimerspec when{
      .it_interval = {},
      .it_value = {.tv_sec = seconds.count(), .tv_nsec = std::max((delay - seconds).count(), 1L)}};
  if (::timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
      ::timer_settime(timer, 0, &when, nullptr) != 0)
    ::raise(number);
}

void begin_fault(const Scenario& scenario) {
  switch (scenario.fault) {
    case Fault::kill:
      return signal_after(scenario.delay, SIGKILL);
    case Fault::stop:
    case Fault::blame:
      return signal_after(scenario.delay, SIGSTOP);
    case Fault::cut:
    case Fault::slow:
      return say(std::string{says_now});  // whoever watches does it
  }
}

/// One call with test data; throws what it throws, with its buffers overwritten, as a caller may.
std::uint64_t wrong_after_call(Communicator& world, const perf::Cell& cell) {
  const Contract contract = cell.contract(world.size());
  const perf::TestData data{cell.type, cell.op, contract, world.size()};
  const std::size_t bytes = bytes_of(contract.extent(), size_of(cell.type)).value() + 64;
  std::vector<std::byte> input(bytes), output(bytes, std::byte{0xa5});
  const Request request =
      perf::request_of(cell, world.rank(), world.size(), input.data(), output.data());
  data.fill(const_cast<void*>(request.input), world.rank());
  try {
    world.run(request);
  } catch (const Error&) {
    std::ranges::fill(input, std::byte{0x5a});
    std::ranges::fill(output, std::byte{0x5a});
    throw;
  }
  return data.count_wrong(request.output, world.rank());
}

/// A message to the right and one from the left, each with what it should be.
std::uint64_t wrong_after_exchange(Communicator& world, std::size_t bytes, int n) {
  const int size = world.size(), left = (world.rank() + size - 1) % size;
  const auto content = [&](int rank) { return static_cast<std::uint8_t>(rank * 16 + n % 16 + 1); };
  std::vector<std::uint8_t> mine(bytes, content(world.rank())), theirs(bytes);
  try {
    world.exchange(
        {Message::to((world.rank() + 1) % size, mine, n), Message::from(left, theirs, n)});
  } catch (const Error&) {
    std::ranges::fill(mine, 0);
    throw;
  }
  return bytes - static_cast<std::uint64_t>(std::ranges::count(theirs, content(left)));
}

/// A group of all but one rank, which sum up one number each.
std::uint64_t wrong_after_split(Communicator& world, int n) {
  const int alone = n % world.size();
  auto group = world.split(world.rank() == alone ? 1 : 0, -world.rank());
  std::int32_t sum = world.rank() + 1;
  group->all_reduce(std::span{&sum, 1});
  const int size = world.size(), all = size * (size + 1) / 2;
  return sum == (world.rank() == alone ? alone + 1 : all - alone - 1) ? 0 : 1;
}

std::uint64_t wrong_after(Communicator& world, const Scenario& scenario, int n) {
  if (scenario.splits) return wrong_after_split(world, n);
  if (scenario.messages) return wrong_after_exchange(world, scenario.size.value(), n);
  return wrong_after_call(world, scenario.call(n));
}

/// All ranks learn in the same call that rank 0 shall end.
bool all_shall_end(Communicator& world) {
  std::int32_t end = shall_end ? 1 : 0;
  world.all_reduce(std::span{&end, 1}, ReduceOp::max);
  return end != 0;
}

void call_until_error(Communicator& world, const Scenario& scenario) {
  world.barrier();  // who is still starting when the fault comes gets other errors
  for (int n = 0;; ++n) {
    if (n == scenario.moment && world.rank() == scenario.victim) begin_fault(scenario);
    if (const auto wrong = wrong_after(world, scenario, n))
      say(fmt::format("{}{} values in call {}", says_wrong, wrong, n));
    if (scenario.ends_well() && all_shall_end(world)) return say(std::string{says_right});
  }
}

/// "2,3", or "-" where nobody is named.
std::string culprits_of(const Error& error) {
  const auto* const of_peer = dynamic_cast<const PeerError*>(&error);
  std::string text;
  for (const Culprit& culprit : of_peer ? of_peer->culprits() : std::vector<Culprit>{})
    text += fmt::format("{}{}", text.empty() ? "" : ",", culprit.world_rank.value());
  return text.empty() ? "-" : text;
}

std::string describe(const Error& error) {
  const auto* lost = dynamic_cast<const PeerLost*>(&error);
  const char* kind = lost                                          ? "PeerLost"
                     : dynamic_cast<const TimedOut*>(&error)       ? "TimedOut"
                     : dynamic_cast<const Mismatch*>(&error)       ? "Mismatch"
                     : dynamic_cast<const BootstrapError*>(&error) ? "BootstrapError"
                                                                   : "Error";
  return fmt::format("{}{} {} {} {}", says_error, kind, lost ? lost->lost().value() : -1,
                     culprits_of(error), error.what());
}

/// An error of a collective is the communicator's; one of a message may be that of a neighbour.
void check_that_it_stays(Communicator& world, const Scenario& scenario, const std::string& first) {
  try {
    world.barrier();
    say(fmt::format("{}the communicator works after an error", says_wrong));
  } catch (const Error& error) {
    const std::string second = describe(error);
    if (!scenario.messages && !scenario.splits && second != first)
      say(fmt::format("{}after \"{}\" came \"{}\"", says_wrong, first, second));
  }
}

/// The files of this process, and its mappings of memory that is shared with peers.
std::multiset<std::string> possessions() {
  namespace fs = std::filesystem;
  std::multiset<std::string> found;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator{"/proc/self/fd"}) {
    std::string target = fs::read_symlink(entry.path(), gone).string();
    if (gone || target.starts_with("/proc/")) continue;
    found.insert(target.substr(0, target.find('[')));  // without its number
  }
  std::ifstream maps{"/proc/self/maps"};
  for (std::string line; std::getline(maps, line);)
    if (line.find("memfd:") != std::string::npos || line.find("/dev/shm") != std::string::npos)
      found.insert("mapping of " + line.substr(line.find('/')));
  return found;
}

void check_possessions(const std::multiset<std::string>& before) {
  const auto after = possessions();
  std::vector<std::string> more;
  std::ranges::set_difference(after, before, std::back_inserter(more));
  for (const std::string& one : more) say(fmt::format("{}left behind: {}", says_wrong, one));
}

void run_world(const Scenario& scenario) {
  Communicator world = Communicator::from_environment();
  try {
    call_until_error(world, scenario);
  } catch (const Error& error) {
    const std::string text = describe(error);
    say(text);
    check_that_it_stays(world, scenario, text);
  }
}

}  // namespace

int run_rank(const Scenario& scenario) {
  ::signal(SIGUSR1, [](int) { shall_end = true; });
  const auto before = possessions();
  try {
    run_world(scenario);
  } catch (const Error& error) {  // it never became a rank
    say(describe(error));
  }
  check_possessions(before);
  say(std::string{says_left});
  return 0;
}

}  // namespace capstan::soak
