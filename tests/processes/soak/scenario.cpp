// SPDX-License-Identifier: Apache-2.0
#include "tests/processes/soak/scenario.hpp"

#include <fmt/format.h>

#include <cmath>
#include <random>

namespace capstan::soak {
namespace {

using namespace std::chrono_literals;

/// Numbers that are the same for a seed on every machine, unlike those of std's distributions.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t below(std::uint64_t count) { return engine_() % count; }
  int between(int first, int last) {
    return first + static_cast<int>(below(static_cast<std::uint64_t>(last - first + 1)));
  }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  /// As many small ones as large ones.
  std::uint64_t up_to(std::uint64_t most) {
    const int bits = static_cast<int>(std::log2(static_cast<double>(most)));
    return below((std::uint64_t{2} << between(0, bits)) - 1) % most;
  }

 private:
  std::mt19937_64 engine_;
};

constexpr std::uint64_t largest_call = 2 << 20;

std::optional<Collective> some_collective(Dice& dice) {
  const auto all = all_collectives();
  if (dice.one_in(3)) return std::nullopt;
  return all[dice.below(all.size())];
}

/// A random operation that works on integers of every size.
ReduceOp some_op(Dice& dice) {
  constexpr ReduceOp ops[] = {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::bit_xor};
  return ops[dice.below(std::size(ops))];
}

DataType some_type(Dice& dice) {
  constexpr DataType types[] = {DataType::i32, DataType::i64, DataType::u8};
  return types[dice.below(std::size(types))];
}

std::uint64_t dice_seed(Fault fault, std::uint64_t seed) {
  return seed * std::size(all_faults) + static_cast<std::uint64_t>(fault);
}

}  // namespace

std::string_view name_of(Fault fault) {
  constexpr std::string_view names[] = {"kill", "stop", "cut", "slow", "blame"};
  return names[static_cast<std::size_t>(fault)];
}

std::optional<Fault> fault_named(std::string_view name) {
  for (const Fault fault : all_faults)
    if (name == name_of(fault)) return fault;
  return std::nullopt;
}

Scenario::Scenario(Fault what, std::uint64_t from) : fault(what), seed(from) {
  Dice dice{dice_seed(what, from)};
  hosts = dice.between(2, 4);
  ranks_each = dice.between(1, 2);
  in_turns = dice.one_in(2);
  messages = dice.one_in(5);
  collective = some_collective(dice);
  type = some_type(dice);
  op = some_op(dice);
  size = Bytes{dice.up_to(largest_call)};
  victim = dice.between(0, ranks() - 1);
  moment = static_cast<int>(dice.up_to(64));
  delay = std::chrono::microseconds{dice.up_to(20'000)};
  progress_thread = dice.one_in(4);
  resumes = dice.one_in(2);
  slowness = static_cast<Slowness>(dice.below(4));
  pause = std::chrono::milliseconds{dice.between(20, 300)};
  rate_kbit = 1000 * static_cast<std::uint32_t>(dice.between(5, 50));

  // Long where it must not pass, however busy the machine is.
  timeout = fault == Fault::kill || ends_well()
                ? 60s
                : std::chrono::milliseconds{dice.between(1000, 2000)};
  if (fault == Fault::slow && slowness == Slowness::standstill) {
    rate_kbit = 8;  // a step of this call takes minutes
    size = Bytes{largest_call};
    collective = dice.one_in(2) ? Collective::all_reduce : Collective::all_to_all;
  }
  if (fault == Fault::blame) arrange_blame();
  // In calls without elements ranks need not wait.
  constexpr Bytes of_any_type{8};
  if (stops()) size = std::max(size, of_any_type * static_cast<std::uint64_t>(ranks()));
}

/// Seeds go through all kinds of calls, and then through all arrangements: on one host, each rank
/// on a host of its own, and two on each of two.
void Scenario::arrange_blame() {
  struct Arrangement {
    int hosts, ranks_each;
  };
  constexpr Arrangement arrangements[] = {{1, 3}, {1, 4}, {3, 1}, {4, 1}, {2, 2}};
  const auto all = all_collectives();
  const std::size_t kinds = all.size() + 2, kind = seed % kinds;
  messages = kind == all.size();
  splits = kind == all.size() + 1;
  collective = kind < all.size() ? std::optional{all[kind]} : std::nullopt;
  const Arrangement& arrangement = arrangements[seed / kinds % std::size(arrangements)];
  hosts = arrangement.hosts;
  ranks_each = arrangement.ranks_each;
  victim %= ranks();
  timeout = 1s;
}

void Scenario::move_to_one_host() {
  ranks_each = ranks();
  hosts = 1;
  in_turns = false;
}

perf::Cell Scenario::call(int n) const {
  const auto all = all_collectives();
  const Collective which =
      collective.value_or(all[(static_cast<std::size_t>(n) + seed) % all.size()]);
  perf::Cell cell = perf::cell_of(which, type, reduces(which) ? op : ReduceOp::sum, size, ranks());
  cell.shape.root = has_root(which) ? n % ranks() : 0;
  cell.in_place = n % 2 == 1 && which != Collective::all_to_all_v;
  return cell;
}

std::string Scenario::work() const {
  if (messages) return "messages";
  if (splits) return "splits";
  return std::string{collective ? capstan::name_of(*collective) : "all collectives"};
}

std::string Scenario::description() const {
  std::string what;
  if (fault == Fault::slow) {
    constexpr const char* names[] = {"pauses", "rate", "flap", "standstill"};
    what = fmt::format(" ({}, {} ms, {} kbit/s)", names[static_cast<int>(slowness)], pause.count(),
                       rate_kbit);
  }
  return fmt::format(
      "{}{} rank {} of {} on {} hosts{} at call {} + {} us, {} of {} bytes, time-out {} ms{}{}",
      name_of(fault), what, victim, ranks(), hosts, in_turns ? " in turns" : "", moment,
      delay.count(), work(), size.value(), timeout.count(),
      progress_thread ? ", progress thread" : "", stops() && resumes ? ", goes on later" : "");
}

}  // namespace capstan::soak
