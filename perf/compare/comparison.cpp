// SPDX-License-Identifier: Apache-2.0
#include "perf/compare/comparison.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "perf/measure/alone.hpp"
#include "perf/measure/statistics.hpp"

namespace capstan::perf {

using worker_protocol::Answer;
using worker_protocol::Order;

namespace {

/// Statistics of calls with so many buffers, for each of them.
Times times_of(std::vector<double> seconds, int many) {
  for (double& each : seconds) each /= many;
  std::vector<double> rounds = seconds;
  for (double& each : rounds) each *= 1e6;
  const Statistics statistics{std::move(seconds)};
  return {.median = statistics.median() * 1e6,
          .least = statistics.least() * 1e6,
          .spread = statistics.spread(),
          .lower = statistics.quantile(0.25) * 1e6,
          .upper = statistics.quantile(0.75) * 1e6,
          .rounds = std::move(rounds)};
}

/// Ratios of the times of the same rounds; empty if there are none.
std::optional<Statistics> ratio_of(const std::vector<double>& numerators,
                                   const std::vector<double>& denominators) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(numerators.size(), denominators.size()); ++i)
    if (denominators[i] > 0) ratios.push_back(numerators[i] / denominators[i]);
  if (ratios.empty()) return std::nullopt;
  return Statistics{std::move(ratios)};
}

/// Only the best configuration of each peer counts: the one with the lowest ratio.
void add_if_better(std::vector<CellResult::Peer>& peers, CellResult::Peer peer) {
  const auto same = std::ranges::find(peers, peer.name, &CellResult::Peer::name);
  if (same == peers.end())
    peers.push_back(std::move(peer));
  else if (peer.ratio < same->ratio)
    *same = std::move(peer);
}

/// Measures two times in turns. Empty if one of the measurements fails, that is, returns 0.
template <class Numerator, class Denominator>
std::optional<double> median_ratio(int rounds, const Numerator& numerator,
                                   const Denominator& denominator) {
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    const double a = numerator(), b = denominator();
    if (a <= 0 || b <= 0) return std::nullopt;
    ratios.push_back(a / b);
  }
  return Statistics{std::move(ratios)}.median();
}

}  // namespace

Comparison::Comparison(Coordinator& coordinator, int ranks, const MeasureOptions& options,
                       bool alone)
    : coordinator_(coordinator), ranks_(ranks), options_(options), alone_(alone) {}

Answer Comparison::tell(std::size_t worker, Order::Kind kind, std::uint32_t calls) {
  Order order = cell_;
  order.kind = kind;
  order.calls = calls;
  return coordinator_.order(worker, order);
}

double Comparison::bytes_of_rank(int rank) const {
  if (cell_.messages != MessagePattern::none) return 2 * static_cast<double>(cell_.bytes);
  const Cell cell =
      compared_cell_of(static_cast<Collective>(cell_.collective), Bytes{cell_.bytes}, ranks_);
  const BufferLengths lengths = cell.contract(ranks_).lengths(rank);
  return static_cast<double>(lengths.input.value() + lengths.output.value()) * 4;
}

/// Whether the buffers of all workers fit into three quarters of the free memory at the same time.
bool Comparison::fits_in_memory() const {
  double bytes = 0;
  for (int rank = 0; rank < ranks_; ++rank)
    bytes +=
        bytes_of_rank(rank) * static_cast<double>(coordinator_.workers()) * options_.calls.many;
  const double free = static_cast<double>(::sysconf(_SC_AVPHYS_PAGES)) *
                      static_cast<double>(::sysconf(_SC_PAGESIZE));
  return bytes < free * 3 / 4;
}

/// Seconds of a round for one worker.
double Comparison::turn() const {
  return options_.seconds / options_.rounds;
}

std::uint32_t Comparison::calls_in_turn(double seconds) const {
  return static_cast<std::uint32_t>(std::clamp(turn() / std::max(seconds, 1e-9), 1.0, 50000.0));
}

/// Checks a worker's result and finds how many calls fill its share of a round.
void Comparison::enroll(std::size_t worker) {
  Entry& entry = entries_[worker];
  if (coordinator_.disqualified(worker)) return;
  const Answer prepared = tell(worker, Order::Kind::prepare);
  entry.active = !prepared.failed;
  if (!entry.active) return;
  if (options_.check) entry.wrong = tell(worker, Order::Kind::check).wrong;
  for (std::uint32_t calls = 1;; calls *= 8) {
    const double seconds = tell(worker, Order::Kind::time, calls).seconds;
    entry.calls = calls_in_turn(seconds / calls);
    entry.turn = seconds / calls * entry.calls;
    if (seconds > turn() / 20 || calls > 10000) break;
  }
  if (!keep_buffers_) tell(worker, Order::Kind::release);
}

void Comparison::measure(std::size_t worker) {
  Entry& entry = entries_[worker];
  if (!entry.active) return;
  if (!keep_buffers_ && !renew_buffers(worker)) entry.active = false;
  if (entry.active) {
    const Answer answer = tell(worker, Order::Kind::time, entry.calls);
    entry.active = !answer.failed;
    if (entry.active)
      entry.seconds.push_back(answer.seconds / entry.calls), entry.explanation = answer.text,
                                                             entry.waited.push_back(answer.waited);
    // Other programs may have come to need the cores: then each call waits for one.
    if (answer.seconds > 4 * turn()) entry.calls = calls_in_turn(answer.seconds / entry.calls);
  }
  const bool alone = alone_ && cell_.messages == MessagePattern::none;
  if (alone && entry.active && coordinator_.spec(worker).peer_name != bound_name)
    measure_alone(worker);
  if (!keep_buffers_) tell(worker, Order::Kind::release);
}

void Comparison::measure_alone(std::size_t worker) {
  Entry& entry = entries_[worker];
  const double call = entry.seconds.back();
  const std::uint64_t calls = AloneCalls::calls_in(turn(), call, options_.skew);
  Order order = cell_;
  order.kind = Order::Kind::time_alone;
  order.calls = std::min<std::uint64_t>(calls, entry.calls);
  order.call_nanoseconds = static_cast<std::uint64_t>(call * 1e9);
  order.skew_nanoseconds = static_cast<std::uint64_t>(options_.skew.count());
  const Answer answer = coordinator_.order(worker, order);
  entry.active = !answer.failed;
  if (entry.active) entry.alone.push_back(answer.seconds);
}

/// Allocates new buffers and makes three calls before anything is measured: in these calls
/// libraries register buffers or move them to other pages. False if that failed.
bool Comparison::renew_buffers(std::size_t worker) {
  constexpr std::uint32_t calls = 2;  // and one to warm up
  return !tell(worker, Order::Kind::prepare).failed &&
         !tell(worker, Order::Kind::time, calls).failed;
}

std::size_t Comparison::own_worker() const {
  std::size_t own = 0;
  while (coordinator_.spec(own).peer_name != own_name) ++own;
  return own;
}

/// The calls that are under way at once; 0: they block.
std::uint64_t Comparison::started() const {
  return options_.calls.form == Calling::started ? static_cast<std::uint64_t>(options_.calls.many)
                                                 : 0;
}

/// The calls, or messages, by which a measured time is divided.
int Comparison::calls_in_one() const {
  return options_.calls.many * messages_in(cell_.messages, options_.window);
}

/// Sets the cell of the orders that follow.
void Comparison::choose(const Subject& subject, Bytes size) {
  cell_ = {.collective = static_cast<std::uint32_t>(subject.collective),
           .messages = subject.messages,
           .window = static_cast<std::uint32_t>(options_.window),
           .in_place = subject.in_place,
           .allocated = options_.buffers == Buffers::allocated,
           .bytes = size.value(),
           .started = subject.is_collective() ? started() : 0};
}

CellResult Comparison::run(const Subject& subject, Bytes size) {
  constexpr int most = 3;
  const auto distance = [&] { return alone_ ? measure_distance(coordinator_) : 0; };
  CellResult cell;
  double before = distance();
  for (int time = 0; time < most; ++time) {
    cell = run_once(subject, size);
    cell.distance = {before, distance()};
    if (!cell.distance.changed()) break;
    before = cell.distance.after;
  }
  return cell;
}

CellResult Comparison::run_once(const Subject& subject, Bytes size) {
  choose(subject, size);
  keep_buffers_ = fits_in_memory();
  entries_.assign(coordinator_.workers(), {});
  const std::size_t n = entries_.size();
  for (std::size_t worker = 0; worker < n; ++worker) enroll(worker);
  const int rounds = rounds_in_time();
  run_rounds(rounds);
  constexpr int times_more = 3;
  if (is_undecided(&Entry::seconds) || is_undecided(&Entry::alone)) run_rounds(times_more * rounds);
  for (std::size_t worker = 0; worker < n && options_.percentiles; ++worker) list_calls(worker);
  for (std::size_t worker = 0; worker < n && keep_buffers_; ++worker)
    if (entries_[worker].active) tell(worker, Order::Kind::release);
  return result(subject, size);
}

/// Times single calls: as many as a round has.
void Comparison::list_calls(std::size_t worker) {
  Entry& entry = entries_[worker];
  if (!entry.active || (!keep_buffers_ && !renew_buffers(worker))) return;
  entry.single = coordinator_.list(worker, entry.calls);
  if (!keep_buffers_) tell(worker, Order::Kind::release);
}

/// As many rounds as the time of a cell has room for, where a single call exceeds its share.
int Comparison::rounds_in_time() const {
  constexpr int fewest = 3;
  double longest = 0;
  for (const Entry& entry : entries_)
    if (entry.active) longest = std::max(longest, entry.turn);
  const double room = longest > 0 ? options_.seconds / longest : options_.rounds;
  return std::min(options_.rounds, std::max(fewest, static_cast<int>(room)));
}

void Comparison::run_rounds(int rounds) {
  const std::size_t n = entries_.size();
  for (std::size_t round = 0; round < static_cast<std::size_t>(rounds); ++round)
    for (std::size_t i = 0; i < n; ++i) measure((i + round) % n);
}

/// Whether Capstan is faster than some peer in a quarter of the rounds and slower in another
/// quarter.
bool Comparison::is_undecided(std::vector<double> Entry::* times) const {
  const Entry& own = entries_[own_worker()];
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const bool is_peer = &entries_[i] != &own && coordinator_.spec(i).peer_name != bound_name;
    const auto ratio = is_peer ? ratio_of(entries_[i].*times, own.*times) : std::nullopt;
    if (ratio && ratio->quantile(0.25) < 1 && ratio->quantile(0.75) > 1) return true;
  }
  return false;
}

/// Seconds of one prepared call; 0 if it failed.
double Comparison::time_own_calls(std::uint32_t calls) {
  tell(own_worker(), Order::Kind::time, std::max(2U, calls / 10));
  return tell(own_worker(), Order::Kind::time, calls).seconds / calls;
}

double Comparison::time_own(const CellResult& cell) {
  choose(cell.subject, cell.size);
  if (tell(own_worker(), Order::Kind::prepare).failed) return 0;
  const double seconds = time_own_calls(cell.calls);
  tell(own_worker(), Order::Kind::release);
  return seconds;
}

std::optional<double> Comparison::compare(const CellResult& cell, const CellResult& other) {
  return median_ratio(
      options_.rounds, [&] { return time_own(cell); }, [&] { return time_own(other); });
}

std::optional<double> Comparison::compare_with_parts(const CellResult& cell, std::size_t parts) {
  choose(cell.subject, cell.size);
  cell_.parts = parts + 1;
  std::optional<double> ratio;
  const auto time = [&](std::uint64_t what) {
    cell_.parts = what;
    return time_own_calls(cell.calls);
  };
  if (!tell(own_worker(), Order::Kind::prepare).failed)
    ratio = median_ratio(options_.rounds, [&] { return time(0); }, [&] { return time(parts + 1); });
  tell(own_worker(), Order::Kind::release);
  return ratio;
}

void Comparison::add_single_calls(Times& times, const Entry& entry) const {
  if (!entry.single) return;
  const double each = 1e6 / calls_in_one();
  times.single = SingleCalls{.p50 = entry.single->p50 * each,
                             .p99 = entry.single->p99 * each,
                             .largest = entry.single->largest * each};
}

void Comparison::add_peer(CellResult& cell, const WorkerSpec& spec, const Entry& entry) const {
  const Entry& own = entries_[own_worker()];
  const auto peer = [&](const std::vector<double>& times, const std::vector<double>& own_times) {
    const auto ratio = ratio_of(times, own_times);
    return CellResult::Peer{.name = spec.peer_name,
                            .worker = spec.name,
                            .times = times_of(times, calls_in_one()),
                            .ratio = ratio ? ratio->median() : 0,
                            .ratio_spread = ratio ? ratio->spread() : 0,
                            .wrong = entry.wrong};
  };
  cell.ways.push_back(peer(entry.seconds, own.seconds));
  add_single_calls(cell.ways.back().times, entry);
  add_if_better(cell.peers, cell.ways.back());
  if (entry.alone.empty()) return;
  cell.ways_alone.push_back(peer(entry.alone, own.alone));
  add_if_better(cell.peers_alone, cell.ways_alone.back());
}

/// The work of other programs is not known, as workers take turns. A round in which a rank waited
/// is no more than an outlier of a median, so most rounds decide.
MachineState Comparison::state() const {
  MachineState state{.load = read_machine().load, .others = -1};
  state.processors = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  state.shares_cores = ranks_ > state.processors;
  for (const Entry& entry : entries_)
    if (!entry.waited.empty())
      state.waited = std::max(state.waited, Statistics{entry.waited}.median());
  return state;
}

CellResult Comparison::result(const Subject& subject, Bytes size) const {
  CellResult cell{.subject = subject, .ranks = ranks_, .size = size};
  cell.state = state();
  const Entry& own = entries_[own_worker()];
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    const WorkerSpec& spec = coordinator_.spec(i);
    if (!entry.active || entry.seconds.empty()) continue;
    const Times times = times_of(entry.seconds, calls_in_one());
    if (&entry == &own) {
      cell.own = times;
      if (!entry.alone.empty()) cell.alone = times_of(entry.alone, calls_in_one());
      cell.wrong = entry.wrong;
      cell.explanation = entry.explanation;
      cell.calls = entry.calls;
      add_single_calls(cell.own, entry);
      cell.rounds = entry.seconds.size();
    } else if (spec.peer_name == bound_name) {
      cell.bound = times;
      const auto ratio = ratio_of(own.seconds, entry.seconds);
      cell.times_bound = ratio ? ratio->median() : 0;
    } else {
      add_peer(cell, spec, entry);
    }
  }
  return cell;
}

}  // namespace capstan::perf
