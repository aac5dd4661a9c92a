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

namespace capstan::perf {
namespace {

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

/// One call at least, and no more than a round needs to be sure of its mean.
std::uint64_t calls_in(double seconds, double call) {
  return static_cast<std::uint64_t>(std::clamp(seconds / call, 1.0, 20000.0));
}

}  // namespace

double bus_share(Collective collective, int ranks) {
  const double p = ranks;
  switch (collective) {
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
      device_(options.buffers == Buffers::device
                  ? std::make_unique<DeviceCalls>(world, options.vendor, options.device_number)
                  : nullptr),
      input_memory_(allocate(std::max<std::size_t>(largest.value(), 4096))),
      output_memory_(allocate(std::max<std::size_t>(largest.value(), 4096))),
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
  return options_.buffers == Buffers::plain ? plain_memory(bytes) : allocated_memory(world_, bytes);
}

Request Bench::request_of(const Cell& cell) const {
  return perf::request_of(cell, world_.rank(), world_.size(), input_, output_);
}

/// Runs a call. On a device, returns when the call is in the stream.
void Bench::run(const Request& request) {
  device_ ? device_->run(request) : world_.run(request);
}

/// Waits for what run() has begun.
void Bench::finish() {
  if (device_) device_->finish();
}

void Bench::clear_output(Bytes size) {
  if (device_)
    device_->write(output_, std::vector<std::byte>(size.value()));
  else
    std::memset(output_, 0, size.value());
}

double Bench::time_calls(const Cell& cell, std::uint64_t calls) {
  const auto start = std::chrono::steady_clock::now();
  const Request request = request_of(cell);
  for (std::uint64_t i = 0; i < calls; ++i) run(request);
  finish();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Bench::slowest(double seconds) {
  world_.all_reduce(std::span{&seconds, 1}, ReduceOp::max);
  return seconds;
}

std::uint64_t Bench::check(const Cell& cell) {
  const Contract contract = cell.contract(world_.size());
  const TestData data{cell.type, cell.op, contract, world_.size()};
  std::byte *input = input_, *output = output_;
  std::vector<std::byte> host_input, host_output;  // of a device
  if (device_) {
    const Bytes size = bytes_of(contract.extent(), size_of(cell.type));
    host_input.resize(size.value()), host_output.resize(size.value());
    input = host_input.data(), output = host_output.data();
  }
  const Request seen = perf::request_of(cell, world_.rank(), world_.size(), input, output);
  data.spoil(output, contract.extent());
  data.fill(const_cast<void*>(seen.input), world_.rank());
  if (device_) device_->write(input_, host_input), device_->write(output_, host_output);
  run(request_of(cell));
  finish();
  if (device_) device_->read(host_output, output_);
  std::uint64_t wrong = data.count_wrong(seen.output, world_.rank());
  world_.all_reduce(std::span{&wrong, 1});
  return wrong;
}

/// Warms up until the autotuner has decided about calls like this one; false if it takes too long.
/// Ranks agree on the time after every few calls, so that all stop at the same one.
bool Bench::settle(const Cell& cell) {
  constexpr double times_as_long = 8, looks = 8;
  constexpr double most_calls = 1000;  // between two looks
  const double limit = times_as_long * options_.seconds;
  const Request request = request_of(cell);
  if (device_) return time_calls(cell, 2), true;  // by then ranks have agreed on the way
  double elapsed = 0;
  for (double calls = 0, next = 1; elapsed < limit;) {
    const auto start = std::chrono::steady_clock::now();
    for (double i = 0; i < next; ++i) {
      world_.run(request);
      if (world_.is_settled(request)) return true;
    }
    elapsed +=
        slowest(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    calls += next;
    next = std::clamp(std::floor(limit * calls / elapsed / looks), 1.0, most_calls);
  }
  return false;
}

/// Seconds, from one call, or from several where these are short.
double Bench::time_of_call(const Cell& cell) {
  constexpr std::uint64_t several = 5;
  const double one = slowest(time_calls(cell, 1));
  if (one * several * several > options_.seconds) return one;
  return slowest(time_calls(cell, several)) / several;
}

/// Seconds of a call that is alone. `call` is what one in a row takes.
double Bench::time_alone(const Cell& cell, double call) {
  using Clock = AloneCalls::Clock;
  constexpr std::chrono::microseconds soon{100};
  const auto calls = AloneCalls::calls_in(options_.seconds / options_.rounds, call, options_.skew);
  const Request request = request_of(cell);
  std::int64_t begin = (Clock::now() + soon).time_since_epoch().count();
  world_.all_reduce(std::span{&begin, 1}, ReduceOp::max);
  const AloneCalls alone{Clock::time_point{Clock::duration{begin}},
                         call,
                         {options_.skew, world_.rank(), world_.size()}};
  return slowest(alone.time(std::min<std::uint64_t>(calls, 20000), [&] {
    run(request);
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
Bench::InARow Bench::time_in_a_row(const Cell& cell, std::uint64_t calls) {
  constexpr double times_as_long = 4;
  constexpr std::uint64_t first = 256;
  const double limit = times_as_long * options_.seconds / options_.rounds;
  if (calls <= 2 * first)
    return {slowest(time_calls(cell, calls)) / static_cast<double>(calls), calls};
  const double begin = time_calls(cell, first);
  const double each = slowest(begin) / first;
  if (each * static_cast<double>(calls) > limit) return {each, first};
  const double own = begin + time_calls(cell, calls - first);
  return {slowest(own) / static_cast<double>(calls), calls};
}

Bench::Rounds Bench::time_rounds(const Cell& cell, int rounds, std::uint64_t calls) {
  const MachineReading before = read_machine();
  Rounds timed;
  for (int i = 0; i < rounds; ++i) {
    const auto [seconds, done] = time_in_a_row(cell, calls);
    timed.calls += done;
    timed.times.push_back(seconds * 1e6);
    if (done < calls) calls = calls_in(options_.seconds / options_.rounds, seconds);
    if (begins_together_) timed.alone.push_back(time_alone(cell, seconds) * 1e6);
  }
  timed.state = state_since(world_, before);
  return timed;
}

Measurement Bench::measure(const Cell& cell) {
  Measurement result{.cell = cell,
                     .ranks = world_.size(),
                     .buffers = options_.buffers,
                     .algorithm = {},
                     .explanation = {}};
  if (options_.check) result.wrong = check(cell);

  // In place each call sums the result of the one before: zeros do not overflow.
  if (cell.in_place) clear_output(result.bytes());
  if (options_.warm_up > 0) time_calls(cell, options_.warm_up);
  result.settled = settle(cell);
  const double call = time_of_call(cell);
  const int rounds =
      static_cast<int>(std::clamp(options_.seconds / call, 1.0, double(options_.rounds)));
  const std::uint64_t calls = calls_in(options_.seconds / rounds, call);

  Rounds timed = time_rounds(cell, rounds, calls);
  if (timed.state.busy())
    if (Rounds again = time_rounds(cell, rounds, calls); again.state.waited < timed.state.waited)
      timed = std::move(again);
  result.state = timed.state;
  result.times = timed.times, result.times_alone = timed.alone;
  const Statistics statistics{std::move(timed.times)};
  result.median = statistics.median();
  result.least = statistics.least();
  result.spread = statistics.spread();
  result.lower = statistics.quantile(0.25), result.upper = statistics.quantile(0.75);
  if (begins_together_) result.alone = Statistics{std::move(timed.alone)}.median();
  result.calls = timed.calls;
  const Request request = request_of(cell);
  result.explanation = device_ ? device_->explain(request) : world_.explain(request);
  result.algorithm = device_ ? device_->algorithm(request) : world_.algorithm(request);
  return result;
}

RecordedCalls Bench::record(const Cell& cell) {
  constexpr int calls = 3;
  if (cell.in_place)
    clear_output(bytes_of(cell.contract(world_.size()).extent(), size_of(cell.type)));
  return record_calls(world_, request_of(cell), calls);
}

}  // namespace capstan::perf
