// SPDX-License-Identifier: Apache-2.0
#include "tests/processes/shared_buffers.hpp"

#include <fmt/format.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "capstan/error.hpp"
#include "core/schedule/lowering/lower.hpp"
#include "tests/buffer_kinds.hpp"
#include "tests/processes/refused_calls.hpp"

namespace capstan {
namespace {

int report(const Communicator& world, const std::string& trouble) {
  if (!trouble.empty()) fmt::print("rank {}: wrong: {}\n", world.rank(), trouble);
  return trouble.empty() ? 0 : 1;
}

/// Every collective, or the one that is named, with buffers of all kinds.
int use_all_kinds(Communicator& world, std::string_view name) {
  for (const Collective collective : all_collectives())
    if (name.empty() || name == name_of(collective))
      if (report(world, trouble_with_kinds(world, collective)) != 0) return 1;
  return 0;
}

/// From now on going to another process's memory through the kernel kills this one.
void forbid_reaching_others() {
  static constexpr CallPattern calls[] = {{"process_vm_readv", SYS_process_vm_readv},
                                          {"process_vm_writev", SYS_process_vm_writev}};
  filter_calls(calls, SECCOMP_RET_KILL_PROCESS);
}

/// Calls whose buffers are all allocated read nothing through the kernel; others do. Only out of
/// place where buffers would be read in a copy.
int call_without_kernel(Communicator& world, std::string_view name, BufferKinds kinds) {
  for (const Collective collective : all_collectives()) {
    if (name != name_of(collective)) continue;
    BothMemories memories(world, std::size_t{40001} * 4 * static_cast<std::size_t>(world.size()));
    forbid_reaching_others();
    for (Shape& shape : shapes_of(collective, world.size()))
      for (const bool in_place : {false, true}) {
        if (in_place && (overwrites_input(collective) || has_counts(collective))) continue;
        const perf::Cell cell{.collective = collective, .shape = shape, .in_place = in_place};
        if (memories.wrong_values(cell, kinds) > 0)
          return report(world, fmt::format("{} of {}", name, shape.count.value()));
      }
  }
  return 0;
}

/// Long messages are read in place as well.
int send_without_kernel(Communicator& world) {
  auto sent = world.allocate<std::int32_t>(600'000);
  std::vector<std::int32_t> received(600'000);
  forbid_reaching_others();
  const int next = (world.rank() + 1) % world.size(),
            previous = (world.rank() + world.size() - 1) % world.size();
  for (int round = 0; round < 20; ++round) {
    std::fill(sent.begin(), sent.end(), world.rank() + 10 * round);
    const std::size_t first = static_cast<std::size_t>(round) * 10'000;
    world.exchange({Message::to(next, sent.span().subspan(first), round),
                    Message::from(previous, received, round)});
    const auto right = std::count(received.begin(), received.end(), previous + 10 * round);
    if (right < static_cast<std::ptrdiff_t>(received.size() - first))
      return report(world, fmt::format("message {}", round));
  }
  return 0;
}

/// Buffers of both kinds by turns, for so long that the fastest way is found for each, while every
/// rank calls in a manner of its own.
int try_ways(Communicator& world) {
  constexpr std::size_t count = 20'000;
  auto allocated = world.allocate<std::int32_t>(count);
  std::vector<std::int32_t> plain(count), other(count);
  const bool differs = world.rank() == 0;
  const std::array buffers{allocated.span(), std::span{plain},
                           differs ? std::span{other} : allocated.span()};
  const int total = world.size() * (world.size() - 1) / 2;
  for (int round = 0; round < 250; ++round) {
    const bool waits = (world.rank() + round / 5) % 2 == 0;
    for (const std::span<std::int32_t> data : buffers) {
      std::ranges::fill(data, world.rank() + round);
      if (waits)
        world.all_reduce(data);
      else
        world.start_all_reduce(data).wait();
      if (std::ranges::count(data, total + world.size() * round) != count)
        return report(world, fmt::format("round {}", round));
    }
  }
  for (const std::span<std::int32_t> data : {buffers[0], buffers[1]})
    if (!world.is_settled(request::of(Collective::all_reduce, data, data)))
      return report(world, "nothing has been decided");
  return 0;
}

/// Calls of several kinds in flight, while some of them are tried, and tried again: before those
/// with allocated buffers ranks ask each other, before exchanges they tell their lengths. Every
/// rank waits in a manner of its own.
class Backlog {
 public:
  explicit Backlog(Communicator& world)
      : world_(world),
        own_(static_cast<std::uint32_t>(world.rank())),
        allocated_(world.allocate<std::int32_t>(places * count)),
        plain_(places * count),
        sent_(places * each * ranks()),
        received_(sent_.size()),
        lengths_(ranks(), each) {}

  std::string run(int rounds) {
    if (!is_settled(0)) {  // else nothing is tried here
      while (!is_settled(0)) world_.all_reduce(sums(0));
      if (is_settled(1)) return "plain and allocated buffers are of one kind";
    }
    for (; round_ < rounds; ++round_) {
      for (std::size_t place = 0; place < places; ++place) start(place);
      for (Work& work : works_) work.wait();
      works_.clear();
      for (std::size_t place = 0; place < places; ++place)
        if (!is_right(place)) return fmt::format("call {} of round {}", place, round_);
    }
    return all_explain_alike() ? "" : "ranks have decided differently";
  }

 private:
  static constexpr std::size_t places = 16, each = 300;
  static constexpr std::size_t count = 2'000;  // asking is worth its while

  std::size_t ranks() const { return static_cast<std::size_t>(world_.size()); }
  std::span<std::int32_t> sums(std::size_t place) {
    return (place % 4 == 1 ? allocated_.span() : std::span{plain_}).subspan(place * count, count);
  }
  std::span<std::int32_t> all_of(std::vector<std::int32_t>& exchanged, std::size_t place) {
    return std::span{exchanged}.subspan(place * each * ranks(), each * ranks());
  }

  void start(std::size_t place) {
    if (place % 4 == 3) {
      std::ranges::fill(all_of(sent_, place), world_.rank() + round_);
      works_.push_back(world_.start_all_to_all_v(all_of(sent_, place), lengths_,
                                                 all_of(received_, place), lengths_));
    } else {
      std::ranges::fill(sums(place), world_.rank() + round_);
      works_.push_back(world_.start_all_reduce(sums(place)));
    }
    if (own_() % 8 == 0) works_[own_() % works_.size()].wait();
  }

  bool is_right(std::size_t place) {
    if (place % 4 != 3)
      return std::ranges::count(sums(place), world_.size() * (world_.size() - 1) / 2 +
                                                 world_.size() * round_) == count;
    for (std::size_t peer = 0; peer < ranks(); ++peer)
      if (std::ranges::count(all_of(received_, place).subspan(peer * each, each),
                             static_cast<std::int32_t>(peer) + round_) != each)
        return false;
    return true;
  }

  Request request_at(std::size_t place) {
    return request::of(Collective::all_reduce, sums(place), sums(place));
  }
  bool is_settled(std::size_t place) { return world_.is_settled(request_at(place)); }

  bool all_explain_alike() {
    const auto hash =
        std::hash<std::string>{}(world_.explain(request_at(0)) + world_.explain(request_at(1)));
    std::array<std::uint64_t, 2> least{hash, ~std::uint64_t{hash}};
    world_.all_reduce(std::span{least}, ReduceOp::min);
    return least[0] == ~least[1];
  }

  Communicator& world_;
  std::mt19937 own_;
  SharedBuffer<std::int32_t> allocated_;
  std::vector<std::int32_t> plain_, sent_, received_;
  std::vector<std::size_t> lengths_;
  std::vector<Work> works_;
  int round_ = 0;
};

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all{"/proc/self/fd"};
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

std::size_t shared_mappings() {
  std::ifstream maps{"/proc/self/maps"};
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("memfd:capstan") != std::string::npos ? 1 : 0;
  return count;
}

/// Buffers come and go between calls of the world and of groups, alike on all ranks but for who has
/// plain memory instead.
class Stress {
 public:
  Stress(Communicator& world, std::uint32_t seed)
      : world_(world),
        all_(seed),
        own_(seed * 100 + static_cast<std::uint32_t>(world.rank())),
        half_(*world.split(world.rank() % 2)),
        reversed_(*world.split(0, -world.rank())) {}

  std::string run(int steps) {
    for (int i = 0; i < steps; ++i) {
      if (all_() % 4 == 0 || slots_.size() < 2)
        replace(all_() % (slots_.size() + 1));
      else if (std::string trouble = call(); !trouble.empty())
        return fmt::format("step {}, {}", i, trouble);
    }
    return {};
  }

 private:
  struct Slot {
    SharedBuffer<std::uint8_t> allocated;
    std::vector<std::uint8_t> plain;
    std::size_t bytes = 0;
    std::byte* data() {
      return reinterpret_cast<std::byte*>(allocated.size() > 0 ? allocated.data() : plain.data());
    }
  };

  Communicator& pick() {
    Communicator* const all[] = {&world_, &half_, &reversed_};
    return *all[all_() % 3];
  }

  void replace(std::size_t index) {
    if (index == slots_.size() && slots_.size() < 6) slots_.emplace_back();
    Slot& slot = slots_[index % slots_.size()];
    constexpr std::size_t sizes[] = {5'000, 70'000, 600'000, 3'000'000};
    slot = {};  // its addresses are likely to come again
    slot.bytes = sizes[all_() % 4] + all_() % 5'000;
    const bool plain = own_() % 4 == 0;
    slot.allocated = pick().allocate<std::uint8_t>(plain ? 0 : slot.bytes);
    if (plain) slot.plain.resize(slot.bytes);
  }

  std::string call() {
    Communicator& communicator = pick();
    const std::size_t in = all_() % slots_.size(), out = (in + 1) % slots_.size();
    const std::size_t offset = all_() % 100 * sizeof(float);
    const std::size_t room = std::min(slots_[in].bytes, slots_[out].bytes) - offset;
    const auto collectives = all_collectives();
    const Collective collective = collectives[all_() % collectives.size()];
    perf::Cell cell = perf::cell_of(collective, DataType::f32, ReduceOp::sum,
                                    Bytes{std::min<std::size_t>(room, 1 + all_() % room) * 3 / 5},
                                    communicator.size());
    if (has_root(collective))
      cell.shape.root = static_cast<int>(all_() % static_cast<unsigned>(communicator.size()));
    cell.in_place = all_() % 2 == 0 && collective != Collective::all_to_all_v;
    const auto wrong = perf::wrong_values(communicator, cell, slots_[in].data() + offset,
                                          slots_[out].data() + offset);
    if (wrong == 0) return {};
    return fmt::format("{} of {}, {} wrong", name_of(collective), cell.shape.count.value(), wrong);
  }

  Communicator& world_;
  std::mt19937 all_, own_;
  Communicator half_, reversed_;
  std::vector<Slot> slots_;
};

/// Checks that the descriptors and mappings at the end are those that there were in the beginning.
int come_and_go(Communicator& world, int steps) {
  world.barrier();
  const std::size_t descriptors = open_descriptors(), mappings = shared_mappings();
  if (report(world, Stress(world, 2026).run(steps)) != 0) return 1;
  world.barrier();                      // everybody has given back everything,
  auto last = world.allocate<int>(10);  // and lets go of what others have
  last = {};
  (void)world.allocate<int>(0);
  const std::size_t open = open_descriptors(), mapped = shared_mappings();
  if (open == descriptors && mapped <= mappings + static_cast<std::size_t>(world.size())) return 0;
  return report(world, fmt::format("{} descriptors, not {}; {} mappings, not {}", open, descriptors,
                                   mapped, mappings));
}

/// Ranks take back at some moment what their peers may be using, and overwrite it. `in` and `out`
/// may be the same.
std::string cancel_now_and_then(Communicator& world, int rounds, std::span<std::int32_t> in,
                                std::span<std::int32_t> out) {
  std::mt19937 random{static_cast<std::uint32_t>(world.rank())};
  for (int round = 0; round < rounds; ++round) {
    std::ranges::fill(in, round);
    Work work = world.start_all_reduce(in, out);
    if (round % world.size() == world.rank()) {
      const std::chrono::microseconds moment{random() % 600};
      if (!work.wait_for(moment) && work.cancel()) {
        std::ranges::fill(in, -1);
        std::ranges::fill(out, -1);
        world.barrier();
        if (std::ranges::count(out, -1) < std::ssize(out))
          return fmt::format("round {} wrote to what had been taken back", round);
        continue;
      }
    }
    work.wait();
    world.barrier();
    const auto wrong = std::ranges::count_if(
        out, [&](std::int32_t value) { return value != round * world.size(); });
    if (wrong > 0) return fmt::format("{} values of round {}", wrong, round);
  }
  return {};
}

int cancel_now_and_then(Communicator& world, int rounds) {
  constexpr std::size_t count = 400'000;
  auto allocated = world.allocate<std::int32_t>(2 * count);
  std::vector<std::int32_t> plain(2 * count);
  for (const std::span<std::int32_t> memory : {allocated.span(), std::span{plain}})
    for (const bool in_place : {false, true}) {
      const auto in = memory.first(count), out = in_place ? in : memory.last(count);
      const auto trouble = cancel_now_and_then(world, rounds, in, out);
      if (report(world, trouble) != 0) return 1;
    }
  return 0;
}

/// Rank 1 dies at some moment while the others read its buffer, again and again.
int lose_an_owner(Communicator& world, std::size_t count) {
  const std::size_t all = count * static_cast<std::size_t>(world.size());
  auto data = world.allocate<float>(all + count);
  std::jthread death;
  if (world.rank() == 1)
    death = std::jthread{[] {
      std::this_thread::sleep_for(std::chrono::milliseconds{30});
      ::raise(SIGKILL);
    }};
  for (;;) world.all_gather(data.span().subspan(all), data.span().first(all));
}

}  // namespace

int use_shared_buffers(Communicator& world, std::string_view what) {
  const std::string_view verb = what.substr(0, what.find(':'));
  const std::string_view about = verb.size() < what.size() ? what.substr(verb.size() + 1) : "";
  if (verb == "kinds") return use_all_kinds(world, about);
  if (verb == "load") return call_without_kernel(world, about, BufferKinds::allocated);
  if (verb == "fetch") return call_without_kernel(world, about, BufferKinds::plain);
  if (verb == "send") return send_without_kernel(world);
  if (verb == "try") return try_ways(world);
  if (verb == "review") return report(world, Backlog(world).run(std::stoi(std::string{about})));
  if (verb == "cancel") return cancel_now_and_then(world, std::stoi(std::string{about}));
  if (verb == "stress") return come_and_go(world, std::stoi(std::string{about}));
  if (verb == "kill") return lose_an_owner(world, std::stoul(std::string{about}));
  if (verb == "mismatch") {
    auto data = world.allocate<float>(1'000'000);
    world.all_reduce(data.span().first(world.rank() == 1 ? 500'000 : 1'000'000));
  }
  return 2;
}

bool fails_on_purpose(std::string_view what) {
  return what.starts_with("kill") || what.starts_with("mismatch") || what.starts_with("fetch");
}

}  // namespace capstan
