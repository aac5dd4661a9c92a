// SPDX-License-Identifier: Apache-2.0
#include "tests/processes/random_calls.hpp"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "algorithms/registry.hpp"
#include "capstan/communicator.hpp"
#include "perf/measure/cell.hpp"
#include "perf/measure/data.hpp"
#include "tests/ranks/random_messages.hpp"

namespace capstan {
namespace {

using Clock = std::chrono::steady_clock;

/// The resources of the machine that a rank holds while no call is under way.
struct Holdings {
  std::size_t memory = 0;  ///< KiB of its own; slots, which ranks share, are touched bit by bit
  std::size_t descriptors = 0, threads = 0;

  static Holdings now() {
    ::malloc_trim(0);  // what is free but kept is not held
    const auto entries = [](const char* folder) {
      return static_cast<std::size_t>(
          std::distance(std::filesystem::directory_iterator{folder}, {}));
    };
    Holdings held{.descriptors = entries("/proc/self/fd"), .threads = entries("/proc/self/task")};
    std::ifstream status{"/proc/self/status"};
    for (std::string word; status >> word;)
      if (word == "RssAnon:") status >> held.memory;
    return held;
  }

  std::string text() const {
    return fmt::format("{} MiB, {} descriptors, {} threads", memory >> 10, descriptors, threads);
  }
};

/// Whether one of the resources grew from the first half of the samples to the second: there, it
/// was never again as low as it had been at most.
bool have_grown(const std::vector<Holdings>& samples) {
  const auto half = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  const auto grew = [&](std::size_t Holdings::* resource, std::size_t slack) {
    const auto most = std::ranges::max_element(samples.begin(), half, {}, resource);
    const auto least = std::ranges::min_element(half, samples.end(), {}, resource);
    return *least.*resource > *most.*resource + slack;
  };
  constexpr std::size_t slack_in_kib = 1024;
  return samples.size() >= 4 && (grew(&Holdings::memory, slack_in_kib) ||
                                 grew(&Holdings::descriptors, 0) || grew(&Holdings::threads, 0));
}

class RandomCalls {
 public:
  RandomCalls(Communicator& world, std::uint64_t seed)
      : world_(world),
        random_(seed),
        own_random_(seed * 97 + static_cast<std::uint64_t>(world.rank()) + 1) {}

  /// Some hundred calls. Empty, or what went wrong.
  std::string make_some() {
    std::string trouble;
    for (int i = 0; i < 100 && trouble.empty(); ++i) trouble = make_one();
    return trouble;
  }

  std::uint64_t made() const { return made_; }

 private:
  /// The random choices that all ranks share; least <= number <= most.
  std::uint64_t draw(std::uint64_t least, std::uint64_t most) {
    return least + random_() % (most - least + 1);
  }
  template <class Range>
  auto draw_from(const Range& range) {
    return range[draw(0, std::size(range) - 1)];
  }

  std::string make_one() {
    dawdle();
    const auto kind = draw(1, 100);
    if (kind <= 60) return repeat_a_call();
    if (kind <= 80) return overlap_calls();
    if (kind <= 87) return fold_in_order();
    if (kind <= 92) return exchange_messages();
    if (kind <= 96) return change_group(), "";
    return change_memory(), "";
  }

  /// Each rank by itself.
  void dawdle() {
    const auto kind = own_random_() % 100;
    if (kind < 2) std::this_thread::sleep_for(std::chrono::milliseconds{own_random_() % 5});
    if (kind >= 90) {
      const auto end = Clock::now() + std::chrono::microseconds{own_random_() % 100};
      while (Clock::now() < end) continue;
    }
  }

  /// The world, or a group of it that this rank may not be in.
  Communicator* draw_ranks() {
    if (draw(1, 3) > 1 || !grouped_) return &world_;
    return group_ ? &*group_ : nullptr;
  }

  /// Short calls are the most frequent.
  Bytes draw_size() {
    const auto magnitude = draw(0, draw(1, 30) == 1 ? 24 : 17);
    return Bytes{draw(0, std::uint64_t{1} << magnitude)};
  }

  /// For so many ranks; drawn alike by those that do not take part.
  perf::Cell draw_cell(int ranks) {
    const Collective collective = draw_from(all_collectives());
    const DataType type = draw_from(all_data_types());
    ReduceOp op = draw_from(all_reduce_ops());
    const bool prefix = collective == Collective::scan || collective == Collective::exscan;
    if (!supports(type, op) || (prefix && op == ReduceOp::average)) op = ReduceOp::sum;
    const Bytes size = draw_size();
    const bool in_place = draw(0, 1) == 1;
    const auto root = draw(0, 1'000'000);
    perf::Cell cell = perf::cell_of(collective, type, op, size, ranks);
    if (has_root(collective))
      cell.shape.root = static_cast<int>(root % static_cast<unsigned>(ranks));
    cell.in_place = in_place && collective != Collective::all_to_all_v;
    return cell;
  }

  /// Room for both buffers of a call: memory of the world, if the call fits there.
  class Buffers {
   public:
    Buffers(std::size_t each, std::byte* allocated) : each_(each), allocated_(allocated) {
      if (allocated_ == nullptr) own_.resize(2 * each);
    }
    std::byte* input() { return allocated_ != nullptr ? allocated_ : own_.data(); }
    std::byte* output() { return input() + each_; }

   private:
    std::size_t each_;
    std::byte* allocated_;
    std::vector<std::byte> own_;
  };

  Buffers buffers_for(const perf::Cell& cell, int ranks, bool may_be_allocated) {
    const std::size_t bytes =
        bytes_of(cell.contract(ranks).extent(), size_of(cell.type)).value() + 64;
    const std::size_t each = (bytes + 63) / 64 * 64;
    return {each, may_be_allocated && 2 * each <= allocated_bytes_ ? allocated_.get() : nullptr};
  }

  std::string describe(const perf::Cell& cell, const Communicator& ranks) const {
    return fmt::format("call {}: {} of {}, {}, {} elements, root {}, in place {}, {} ranks", made_,
                       name_of(cell.collective), name_of(cell.type), name_of(cell.op),
                       cell.contract(ranks.size()).extent().value(), cell.shape.root, cell.in_place,
                       ranks.size());
  }

  /// The number of ranks that draw_ranks() has given. A rank outside the group takes the world's:
  /// it then draws as many numbers as the members do, so that all ranks continue alike.
  int size_of_drawn(const Communicator* ranks) const {
    return ranks != nullptr ? ranks->size() : world_.size();
  }

  std::string repeat_a_call() {
    Communicator* ranks = draw_ranks();
    const perf::Cell cell = draw_cell(size_of_drawn(ranks));
    const auto times = draw(1, 8);
    const bool in_allocated = draw(0, 1) == 1;
    if (ranks == nullptr) return "";
    Buffers buffers = buffers_for(cell, ranks->size(), in_allocated);
    for (std::uint64_t i = 0; i < times; ++i, ++made_)
      if (const auto wrong = perf::wrong_values(*ranks, cell, buffers.input(), buffers.output()))
        return fmt::format("{}: {} wrong values", describe(cell, *ranks), wrong);
    return "";
  }

  /// Several calls in flight, waited for in any order.
  std::string overlap_calls() {
    struct Started {
      perf::Cell cell;
      Buffers buffers;
      int ranks;
      Request request{};
      Work work{};
      // A contract refers to the cell's shape.
      perf::TestData data{cell.type, cell.op, cell.contract(ranks), ranks};
    };
    Communicator* ranks = draw_ranks();
    const int size = size_of_drawn(ranks);
    std::vector<std::unique_ptr<Started>> all;
    for (auto left = draw(2, 6); left > 0; --left) {
      const perf::Cell cell = draw_cell(size);
      if (ranks == nullptr) continue;
      Started& call = *all.emplace_back(new Started{cell, buffers_for(cell, size, false), size});
      call.request =
          perf::request_of(cell, ranks->rank(), size, call.buffers.input(), call.buffers.output());
      call.data.spoil(call.buffers.output(), cell.contract(size).extent());
      call.data.fill(const_cast<void*>(call.request.input), ranks->rank());
      call.work = ranks->start(call.request);
    }
    std::ranges::shuffle(all, own_random_);
    for (const auto& call : all) {
      call->work.wait();
      ++made_;
      if (const auto wrong = call->data.count_wrong(call->request.output, ranks->rank()))
        return fmt::format("{}, in flight: {} wrong values", describe(call->cell, *ranks), wrong);
    }
    return "";
  }

  /// An operation that is not commutative: x -> a x + b, one after the other.
  std::string fold_in_order() {
    const auto count = draw(0, 3000);
    const bool scan = draw(0, 1) == 1;
    std::vector<std::uint64_t> values(count), results(count);
    const auto value = [](std::uint64_t rank, std::uint64_t i) {
      return (rank * 2 + 3) << 32 | ((rank * 31 + i * 7 + 1) & 0xffff);
    };
    const auto rank = static_cast<std::uint64_t>(world_.rank());
    for (std::uint64_t i = 0; i < count; ++i) values[i] = value(rank, i);
    if (scan)
      world_.scan(values, results, affine_);
    else
      world_.all_reduce(values, results, affine_);
    ++made_;
    const auto last = scan ? rank : static_cast<std::uint64_t>(world_.size()) - 1;
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t expected = value(0, i);
      for (std::uint64_t r = 1; r <= last; ++r) expected = compose(expected, value(r, i));
      if (results[i] != expected)
        return fmt::format("call {}: element {} of {} is folded wrongly", made_, i, count);
    }
    return "";
  }

  /// Upper and lower half are a and b of x -> a x + b, modulo 2^32.
  static std::uint64_t compose(std::uint64_t first, std::uint64_t second) {
    const auto upper = [](std::uint64_t f) { return static_cast<std::uint32_t>(f >> 32); };
    const auto lower = [](std::uint64_t f) { return static_cast<std::uint32_t>(f); };
    const std::uint32_t a = upper(first) * upper(second);
    const std::uint32_t b = upper(second) * lower(first) + lower(second);
    return std::uint64_t{a} << 32 | b;
  }

  std::string exchange_messages() {
    const auto messages = static_cast<int>(draw(1, 60));
    made_ += static_cast<std::uint64_t>(messages);
    const std::string trouble = RandomMessages{world_, messages, random_()}.run();
    if (trouble.empty()) world_.barrier();  // some receive from anybody: keep later messages out
    return trouble;
  }

  void change_group() {
    const auto kind = draw(1, 4);
    const auto first = draw(0, 1'000'000), second = draw(0, 1'000'000);
    group_.reset();
    grouped_ = true;
    const int rank = world_.rank(), size = world_.size();
    std::vector<int> members;
    for (int r = 0; r < size; ++r)
      if (r != static_cast<int>(first % static_cast<unsigned>(size)) || size == 1)
        members.push_back(r);
    const bool member = std::ranges::find(members, rank) != members.end();
    switch (kind) {
      case 1:
        group_ = world_.split((rank + static_cast<int>(first % 2)) % 2, second % 2 ? rank : -rank);
        break;
      case 2:
        group_ = world_.subgroup(members);
        break;
      case 3:
        if (member) group_ = world_.create_group(members, static_cast<int>(second % 100));
        break;
      default: {
        const Collective collective = all_collectives()[first % all_collectives().size()];
        const auto& choices = algorithms(collective);
        if (!choices.empty())
          group_ = world_.with_algorithm(
              fmt::format("{}:{}", name_of(collective), choices[second % choices.size()].name));
      }
    }
  }

  void change_memory() {
    allocated_bytes_ = draw(0, 1 << 21);
    allocated_ = world_.allocate_bytes(allocated_bytes_);
  }

  Communicator& world_;
  std::mt19937_64 random_, own_random_;
  std::uint64_t made_ = 0;
  std::optional<Communicator> group_;
  bool grouped_ = false;
  std::shared_ptr<std::byte> allocated_;
  std::size_t allocated_bytes_ = 0;
  Reducer affine_ = Reducer::of<std::uint64_t>("affine", compose, false);
};

}  // namespace

int make_random_calls(Communicator& world, std::chrono::seconds duration, std::uint64_t seed) {
  if (world.rank() == 0) fmt::print("random calls of seed {} for {} s\n", seed, duration.count());
  RandomCalls calls{world, seed};
  const auto began = Clock::now();
  constexpr std::chrono::minutes interval{1};
  auto next_look = began + interval;
  std::vector<Holdings> samples;
  for (int going = 1; going != 0;) {
    if (const std::string trouble = calls.make_some(); !trouble.empty()) {
      fmt::print("rank {}, seed {}: {}\n", world.rank(), seed, trouble);
      return 1;
    }
    const auto now = Clock::now();
    if (now >= next_look) {
      next_look += interval;
      samples.push_back(Holdings::now());
      if (world.rank() == 0) {
        const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - began);
        fmt::print("{} of {} s: {} calls, {}\n", seconds.count(), duration.count(), calls.made(),
                   samples.back().text());
        std::fflush(stdout);
      }
    }
    going = now < began + duration ? 1 : 0;
    world.broadcast(std::span{&going, 1}, 0);
  }
  if (!have_grown(samples)) return 0;
  fmt::print("rank {} holds {}, and held {}\n", world.rank(), samples.back().text(),
             samples.front().text());
  return 1;
}

}  // namespace capstan
