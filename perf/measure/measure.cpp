// SPDX-License-Identifier: Apache-2.0
#include "perf/measure/measure.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <utility>

#include "capstan/error.hpp"
#include "core/platform/net/host_identity.hpp"
#include "perf/measure/alone.hpp"
#include "perf/measure/data.hpp"
#include "perf/measure/device_calls.hpp"
#include "perf/measure/statistics.hpp"
#include "topology/machine.hpp"

namespace capstan::perf {
namespace {

using Clock = std::chrono::steady_clock;

/// Memory from `new`, as most programs use it.
std::shared_ptr<std::byte> plain_memory(std::size_t bytes) {
  try {
    return {new std::byte[bytes](), std::default_delete<std::byte[]>()};
  } catch (const std::bad_alloc&) {
    throw SystemError("not enough memory for the buffers: choose a smaller --max-bytes");
  }
}

std::shared_ptr<std::byte> allocated_memory(Communicator& world, std::size_t bytes) {
  const auto buffer =
      std::make_shared<SharedBuffer<std::uint8_t>>(world.allocate<std::uint8_t>(bytes));
  return {buffer, reinterpret_cast<std::byte*>(buffer->data())};
}

/// The bytes that the caches of this machine hold which one rank may use.
Bytes cache_bytes() {
  const Machine machine = Machine::discover();
  constexpr Bytes unknown{64 << 20};
  const Bytes last = machine.l3() + machine.l2();
  return last > Bytes{0} ? last : unknown;
}

std::optional<Communicator> group_of(Communicator& world, int groups) {
  if (groups == 1) return std::nullopt;
  return world.split(world.rank() / (world.size() / groups));
}

}  // namespace

double bus_share(Collective collective, int ranks) {
  const double p = ranks;
  switch (collective) {
    case Collective::barrier:
      return 0;
    case Collective::all_reduce:
      return 2 * (p - 1) / p;
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::scan:
    case Collective::exscan:
      return 1;
    default:
      return (p - 1) / p;
  }
}

std::string_view name_of(Buffers buffers) {
  constexpr std::string_view names[] = {"plain", "allocated", "device"};
  return names[static_cast<std::size_t>(buffers)];
}

/// Explanations name what decided.
std::string_view Measurement::decided_by() const {
  constexpr std::pair<std::string_view, std::string_view> phrases[] = {
      {"asked for by a rule", "rule"}, {"by the profile ", "profile"},
      {" that were tried", "trials"},  {"predicted", "model"},
      {"device executor", "device"},   {"pinned", "device"}};
  for (const auto& [phrase, name] : phrases)
    if (explanation.find(phrase) != std::string::npos) return name;
  return "model";
}

double Measurement::algorithm_bandwidth() const {
  return median > 0 ? static_cast<double>(bytes().value()) / median / 1e3 : 0;
}

double Measurement::bus_bandwidth() const {
  return algorithm_bandwidth() * bus_share(cell.collective, ranks);
}

Bench::Bench(Communicator& world, Bytes largest, const MeasureOptions& options)
    : world_(world),
      options_(options),
      own_group_(group_of(world, options.groups)),
      group_(own_group_ ? *own_group_ : world),
      device_(options.buffers == Buffers::device
                  ? std::make_unique<DeviceCalls>(group_, options.vendor, options.device_number)
                  : nullptr),
      bytes_(
          area_bytes(largest, options.calls.off_cache ? cache_bytes() : Bytes{0}, options.calls)),
      input_memory_(allocate(bytes_)),
      output_memory_(allocate(bytes_)),
      input_(input_memory_.get()),
      output_(output_memory_.get()),
      begins_together_(on_own_cores()) {
  if (!begins_together_ && options.skew.count() > 0) throw InvalidArgument{needs_calls_alone};
}

Bench::~Bench() = default;

/// Whether all ranks are on one machine, whose clock they share, and have a core each.
bool Bench::on_own_cores() {
  const auto machine = static_cast<std::uint64_t>(std::hash<std::string>{}(boot_id()));
  std::uint64_t least = machine, most = machine;
  world_.all_reduce(std::span{&least, 1}, ReduceOp::min);
  world_.all_reduce(std::span{&most, 1}, ReduceOp::max);
  return least == most && world_.size() <= ::sysconf(_SC_NPROCESSORS_ONLN);
}

Bench::Memory Bench::allocate(std::size_t bytes) {
  if (device_) return device_->allocate(bytes);
  return options_.buffers == Buffers::plain ? plain_memory(bytes) : allocated_memory(group_, bytes);
}

TimedCalls Bench::calls_of(const Cell& cell) {
  return {group_, device_.get(), cell, {input_, output_, bytes_}, options_.calls};
}

/// Waits for what has been put into a stream.
void Bench::finish() {
  if (device_) device_->finish();
}

void Bench::clear_outputs() {
  if (device_)
    device_->write(output_, std::vector<std::byte>(bytes_));
  else
    std::memset(output_, 0, bytes_);
}

/// Seconds of calls in a row, on this rank.
template <class Call>
double Bench::time_calls(std::uint64_t calls, const Call& call) {
  if (laps_) laps_->begin(calls);
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < calls; ++i) {
    call();
    if (laps_) laps_->next();
  }
  finish();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Bench::time_calls(TimedCalls& timed, std::uint64_t calls) {
  return time_calls(calls, [&] { timed.run(); });
}

double Bench::slowest(double seconds) {
  world_.all_reduce(std::span{&seconds, 1}, ReduceOp::max);
  return seconds;
}

/// One call with test data in all its buffers.
std::uint64_t Bench::check(const Cell& cell) {
  const Contract contract = cell.contract(group_.size());
  const TestData data{cell.type, cell.op, contract, group_.size()};
  TimedCalls timed = calls_of(cell);
  std::vector<std::byte> inputs(device_ ? bytes_ : 0), outputs(device_ ? bytes_ : 0);
  std::vector<Request> seen;  // by the host
  for (const BufferArea& each : timed.buffers()) {
    std::byte* const input = device_ ? inputs.data() + (each.input - input_) : each.input;
    std::byte* const output = device_ ? outputs.data() + (each.output - output_) : each.output;
    seen.push_back(perf::request_of(cell, group_.rank(), group_.size(), input, output));
    data.spoil(output, contract.extent());
    data.fill(const_cast<void*>(seen.back().input), group_.rank());
  }
  if (device_) device_->write(input_, inputs), device_->write(output_, outputs);
  timed.run();
  finish();
  if (device_) device_->read(outputs, output_);
  std::uint64_t wrong = 0;
  for (const Request& each : seen) wrong += data.count_wrong(each.output, group_.rank());
  world_.all_reduce(std::span{&wrong, 1});
  return wrong;
}

/// Warms up until the autotuner has decided about calls like this one; false if it takes too long.
/// Ranks of a group agree on the time after every few calls, so that all stop at the same one.
bool Bench::settle(TimedCalls& timed) {
  constexpr double times_as_long = 8, looks = 8;
  constexpr double most_calls = 1000;  // between two looks
  const double limit = times_as_long * options_.seconds;
  if (device_) return time_calls(timed, 2), true;  // by then ranks have agreed on the way
  double elapsed = 0;
  for (double calls = 0, next = 1; elapsed < limit;) {
    const auto start = std::chrono::steady_clock::now();
    for (double i = 0; i < next; ++i) {
      timed.run();
      if (group_.is_settled(timed.decisive())) return true;
    }
    double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    group_.all_reduce(std::span{&took, 1}, ReduceOp::max);
    elapsed += took;
    calls += next;
    next = std::clamp(std::floor(limit * calls / elapsed / looks), 1.0, most_calls);
  }
  return false;
}

/// Seconds, from one call, or from several where these are short.
double Bench::time_of_call(TimedCalls& timed) {
  constexpr std::uint64_t several = 5;
  const double one = slowest(time_calls(timed, 1));
  if (one * several * several > options_.seconds) return one;
  return slowest(time_calls(timed, several)) / several;
}

/// Seconds of a call that is alone. `call` is what one in a row takes.
double Bench::time_alone(TimedCalls& timed, double call) {
  using Clock = AloneCalls::Clock;
  constexpr std::chrono::microseconds soon{100};
  const auto calls = AloneCalls::calls_in(options_.seconds / options_.rounds, call, options_.skew);
  std::int64_t begin = (Clock::now() + soon).time_since_epoch().count();
  world_.all_reduce(std::span{&begin, 1}, ReduceOp::max);
  const AloneCalls alone{Clock::time_point{Clock::duration{begin}},
                         call,
                         {options_.skew, world_.rank(), world_.size()}};
  return slowest(alone.time(std::min<std::uint64_t>(calls, 20000), [&] {
    timed.run();
    finish();
  }));
}

MachineState state_since(Communicator& world, const MachineReading& before) {
  const MachineStretch own{before, read_machine()};
  std::vector<MachineStretch> all(static_cast<std::size_t>(world.size()));
  constexpr std::size_t bytes = sizeof own;
  world.all_gather(std::span{reinterpret_cast<const std::uint8_t*>(&own), bytes},
                   std::span{reinterpret_cast<std::uint8_t*>(all.data()), all.size() * bytes});
  return MachineState::of(all);
}

/// Only the first ones if these take far longer than they should: other programs may have come to
/// need the cores, and then each call waits for one.
Bench::InARow Bench::time_in_a_row(TimedCalls& timed, std::uint64_t calls) {
  constexpr double times_as_long = 4;
  constexpr std::uint64_t first = 256;
  const double limit = times_as_long * options_.seconds / options_.rounds;
  if (calls <= 2 * first || options_.iterations > 0)
    return {slowest(time_calls(timed, calls)) / static_cast<double>(calls), calls};
  const double begin = time_calls(timed, first);
  const double each = slowest(begin) / first;
  if (each * static_cast<double>(calls) > limit) return {each, first};
  const double own = begin + time_calls(timed, calls - first);
  return {slowest(own) / static_cast<double>(calls), calls};
}

/// One call at least, and no more than a round needs to be sure of its mean.
std::uint64_t Bench::calls_in_round(double call, int rounds) const {
  if (options_.iterations > 0) return options_.iterations;
  const std::uint64_t most = options_.percentiles ? most_laps(world_.size(), rounds) : 20000;
  const double room = options_.seconds / rounds / call;
  return static_cast<std::uint64_t>(std::clamp(room, 1.0, static_cast<double>(most)));
}

Bench::Rounds Bench::time_rounds(TimedCalls& timed, int rounds, std::uint64_t calls) {
  const MachineReading before = read_machine();
  const double each = 1e6 / options_.calls.many;
  Rounds result;
  for (int i = 0; i < rounds; ++i) {
    if (options_.percentiles) laps_ = &result.laps;
    const auto [seconds, done] = time_in_a_row(timed, calls);
    laps_ = nullptr;
    result.calls += done;
    result.times.push_back(seconds * each);
    if (done < calls) calls = calls_in_round(seconds, options_.rounds);
    if (begins_together_) result.alone.push_back(time_alone(timed, seconds) * each);
  }
  result.state = state_since(world_, before);
  return result;
}

/// Calls beside a computation that takes about as long as one of them. In turns: the calls, the
/// computation, and both.
Overlap Bench::overlap(TimedCalls& timed, double call, int rounds, std::uint64_t calls) {
  double speed = Computation::speed();
  world_.all_reduce(std::span{&speed, 1}, ReduceOp::min);
  const Computation beside{options_.beside, speed, call};
  std::vector<double> shares, starts, computed, both;
  const auto time = [&](const auto& body) {
    return slowest(time_calls(calls, body)) / static_cast<double>(calls);
  };
  for (int i = 0; i < rounds; ++i) {
    Clock::duration started{};
    const double alone = time([&] { timed.run(); });
    computed.push_back(time([&] { beside.run(); }));
    both.push_back(time([&] {
      const auto begin = Clock::now();
      timed.begin();
      started += Clock::now() - begin;
      if (options_.beside == Beside::helped) timed.continue_by_thread();
      beside.run();
      timed.end();
    }));
    starts.push_back(slowest(std::chrono::duration<double>(started).count()) /
                     static_cast<double>(calls));
    const double hidden = alone + computed.back() - both.back();
    shares.push_back(std::clamp(hidden / std::min(alone, computed.back()), 0.0, 1.0));
  }
  const auto median = [](std::vector<double>& values) {
    return Statistics{std::move(values)}.median();
  };
  return {.share = median(shares),
          .start = median(starts) * 1e6,
          .computed = median(computed) * 1e6,
          .both = median(both) * 1e6};
}

Measurement Bench::measure(const Cell& cell) {
  Measurement result{.cell = cell,
                     .ranks = group_.size(),
                     .buffers = options_.buffers,
                     .algorithm = {},
                     .explanation = {}};
  if (options_.check) result.wrong = check(cell);

  // In place each call sums the result of the one before: zeros do not overflow.
  if (cell.in_place) clear_outputs();
  TimedCalls timed = calls_of(cell);
  if (options_.warm_up > 0) time_calls(timed, options_.warm_up);
  result.settled = slowest(settle(timed) ? 0 : 1) == 0;
  const double call = time_of_call(timed);
  const int rounds =
      options_.iterations > 0
          ? options_.rounds
          : static_cast<int>(std::clamp(options_.seconds / call, 1.0, double(options_.rounds)));
  const std::uint64_t calls = calls_in_round(call, rounds);

  Rounds rounds_timed = time_rounds(timed, rounds, calls);
  if (rounds_timed.state.busy())
    if (Rounds again = time_rounds(timed, rounds, calls);
        again.state.waited < rounds_timed.state.waited)
      rounds_timed = std::move(again);
  if (options_.beside != Beside::nothing) result.overlap = overlap(timed, call, rounds, calls);
  fill(result, std::move(rounds_timed));
  const Request& request = timed.decisive();
  result.explanation = device_ ? device_->explain(request) : group_.explain(request);
  result.algorithm = device_ ? device_->algorithm(request) : group_.algorithm(request);
  return result;
}

/// Notes the results of the rounds.
void Bench::fill(Measurement& result, Rounds timed) {
  result.state = timed.state;
  result.times = timed.times, result.times_alone = timed.alone;
  result.calls = timed.calls;
  if (options_.percentiles)
    result.distribution = distribution_of(world_, timed.laps, options_.calls.many);
  if (begins_together_) result.alone = Statistics{std::move(timed.alone)}.median();
  const Statistics statistics{std::move(timed.times)};
  result.median = statistics.median();
  result.least = statistics.least();
  result.spread = statistics.spread();
  result.lower = statistics.quantile(0.25), result.upper = statistics.quantile(0.75);
}

RecordedCalls Bench::record(const Cell& cell) {
  constexpr int calls = 3;
  if (cell.in_place) clear_outputs();
  return record_calls(group_, calls_of(cell).decisive(), calls);
}

}  // namespace capstan::perf
