// SPDX-License-Identifier: Apache-2.0

// The executor on a device, from the source that CUDA and HIP compile: ranks are kernels that run
// on threads of the processor, and reach each other's memory.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "algorithms/registry.hpp"
#include "capstan/error.hpp"
#include "kernels/emulation/delayed.hpp"
#include "tests/devices/emulated_ranks.hpp"
#include "tests/devices/operands.hpp"

namespace capstan {
namespace {

constexpr Collective collectives[] = {Collective::all_reduce, Collective::all_gather,
                                      Collective::reduce_scatter, Collective::broadcast,
                                      Collective::all_to_all};

float value(int rank, std::uint64_t index) {
  return static_cast<float>(rank * 64 + static_cast<int>(index % 61));
}

/// A call of f32 on all ranks, with its plans and buffers.
class Exchange {
 public:
  Exchange(const EmulatedRanks& world, const Call& call, const Algorithm& algorithm,
           Protocol protocol, Bytes block)
      : call_(call) {
    const Hosts hosts{world.ranks()};
    for (const Rank rank : all_ranks(world.ranks())) {
      plans_.push_back(std::make_unique<Plan>(
          make_plan(call, {.algorithm = &algorithm, .protocol = protocol}, hosts, rank,
                    {.block = block, .cached_buffers = Bytes{1 << 20}}, world.segments().slots())));
      const auto lengths = call_.contract(world.ranks()).lengths(rank.value());
      auto& input = inputs_.emplace_back();
      for (std::uint64_t i = 0; i < lengths.input.value(); ++i)
        input.push_back(value(rank.value(), i));
      outputs_.emplace_back(lengths.output.value(), -1.F);
    }
  }

  void add_to(ByRank<std::vector<DeviceCall>>& calls) {
    for (std::size_t r = 0; r < plans_.size(); ++r)
      calls[Rank{static_cast<int>(r)}].push_back(
          {plans_[r].get(), reinterpret_cast<std::byte*>(inputs_[r].data()),
           reinterpret_cast<std::byte*>(outputs_[r].data())});
  }

  /// The first rank with a wrong result, and its element; empty if there is none.
  std::string wrong() const {
    const int ranks = static_cast<int>(plans_.size());
    for (int rank = 0; rank < ranks; ++rank) {
      const auto& output = outputs_[static_cast<std::size_t>(rank)];
      for (std::uint64_t i = 0; i < output.size(); ++i) {
        const auto promise = call_.contract(ranks).promise(rank, Elements{i});
        float expected = promise.last < promise.first ? -1.F : 0.F;
        for (int from = promise.first; from <= promise.last; ++from)
          expected += value(from, promise.index.value());
        if (output[i] != expected)
          return fmt::format("{} by {}, {}, {} ranks: element {} of rank {} is {}, not {}",
                             to_string(call_), plans_[0]->algorithm->name,
                             name_of(plans_[0]->protocol), ranks, i, rank, output[i], expected);
      }
    }
    return {};
  }

 private:
  const Call call_;
  std::vector<std::unique_ptr<Plan>> plans_;
  std::vector<std::vector<float>> inputs_, outputs_;
};

/// Every algorithm for one number of ranks, in packets where they fit, and staged: calls of
/// different lengths back to back, of one block and of several.
class Exchanges {
 public:
  explicit Exchanges(EmulatedRanks& world) : world_(world), calls_(world.ranks()) {}

  void add_all(Collective collective, std::uint64_t count) {
    const Call call{.collective = collective, .shape = {.count = Elements{count}}};
    const Hosts hosts{world_.ranks()};
    for (const Algorithm& algorithm : algorithms(collective)) {
      if (world_.ranks() > algorithm.max_ranks || !algorithm.suits(hosts)) continue;
      add(call, algorithm, Protocol::staged);
      for (const Protocol packets : {Protocol::inline_packets, Protocol::shared_inline_packets})
        if (fits_packets(algorithm, packets, hosts, call, device_slots))
          add(call, algorithm, packets);
    }
  }
  void add(const Call& call, const Algorithm& algorithm, Protocol protocol) {
    all_.emplace_back(std::make_unique<Exchange>(
        world_, call, algorithm, protocol, in_packets(protocol) ? Bytes{1 << 20} : Bytes{2048}));
    all_.back()->add_to(calls_);
  }
  void run(std::uint64_t seed) {
    ASSERT_TRUE(world_.run(calls_, seed)) << "a wait never ended";
    for (const auto& exchange : all_) EXPECT_EQ(exchange->wrong(), "");
  }
  std::size_t size() const { return all_.size(); }

 private:
  EmulatedRanks& world_;
  ByRank<std::vector<DeviceCall>> calls_;
  std::vector<std::unique_ptr<Exchange>> all_;
};

class DeviceExecutor : public ::testing::TestWithParam<int> {};

TEST_P(DeviceExecutor, RunsEveryAlgorithm) {
  EmulatedRanks world{GetParam(), 2};
  Exchanges exchanges{world};
  for (const Collective collective : collectives)
    for (const std::uint64_t count : {1U, 37U, 1500U}) exchanges.add_all(collective, count);
  EXPECT_GE(exchanges.size(), 15U);
  exchanges.run(static_cast<std::uint64_t>(GetParam()));
}
INSTANTIATE_TEST_SUITE_P(Ranks, DeviceExecutor, ::testing::Values(1, 2, 3, 4, 5, 8));

/// All types and operations, with random bits: sums in the order of ranks are those of the
/// processor.
TEST(DeviceExecutors, RunAllTypesAndOperations) {
  constexpr int ranks = 3;
  constexpr std::size_t count = 45;
  EmulatedRanks world{ranks, 1};
  ByRank<std::vector<DeviceCall>> calls{ranks};
  std::vector<Plan> plans;
  plans.reserve(1000);
  struct Check {
    std::vector<std::vector<std::byte>> inputs, outputs;
    std::vector<std::byte> expected;
    std::string text;
  };
  std::vector<std::unique_ptr<Check>> checks;
  const Algorithm& direct = algorithm_named(Collective::all_reduce, "direct");
  ASSERT_TRUE(direct.guarantees.rank_ordered_sum);
  for (const DataType type : all_data_types())
    for (const ReduceOp op : all_reduce_ops())
      for (const Protocol protocol : {Protocol::staged, Protocol::inline_packets}) {
        if (!supports(type, op)) continue;
        auto& check = *checks.emplace_back(std::make_unique<Check>());
        const Call call{.type = type, .op = op, .shape = {.count = Elements{count}}};
        check.text = to_string(call) + " " + std::string{name_of(protocol)};
        for (int r = 0; r < ranks; ++r)
          check.inputs.push_back(random_elements(type, count, static_cast<std::uint64_t>(r)));
        check.expected =
            reduced_by_processor(type, op, check.inputs, op == ReduceOp::average ? ranks : 1);
        check.outputs.assign(ranks, std::vector<std::byte>(check.expected.size()));
        for (const Rank rank : all_ranks(ranks)) {
          plans.push_back(make_plan(call, {.algorithm = &direct, .protocol = protocol},
                                    Hosts{ranks}, rank,
                                    {.block = Bytes{1 << 20}, .cached_buffers = Bytes{1 << 20}},
                                    world.segments().slots()));
          const auto r = static_cast<std::size_t>(rank.value());
          calls[rank].push_back({&plans.back(), check.inputs[r].data(), check.outputs[r].data()});
        }
      }
  ASSERT_TRUE(world.run(calls));
  for (const auto& check : checks)
    for (const auto& output : check->outputs) EXPECT_EQ(output, check->expected) << check->text;
}

/// Calls of one algorithm, back to back.
class Repeated {
 public:
  Repeated(int ranks, Collective collective, const char* algorithm, Protocol protocol, int times)
      : world(ranks, 2), calls(ranks) {
    const Call call{.collective = collective, .shape = {.count = Elements{300}}};
    for (int i = 0; i < times; ++i) {
      all_.push_back(std::make_unique<Exchange>(world, call, algorithm_named(collective, algorithm),
                                                protocol, Bytes{1 << 20}));
      all_.back()->add_to(calls);
    }
  }
  bool right() const {
    return std::ranges::all_of(all_, [](const auto& one) { return one->wrong().empty(); });
  }

  EmulatedRanks world;
  ByRank<std::vector<DeviceCall>> calls;

 private:
  std::vector<std::unique_ptr<Exchange>> all_;
};

/// On the weakest device: nothing is seen before it is released.
void use_delayed(Repeated& repeated, std::vector<kernels::device::DelayedStores>& stores,
                 bool releases) {
  using namespace kernels::device;
  repeated.world.use([&stores, releases](const Call&) -> RunProgram {
    return [&stores, releases](const EmulatedMachine<4>& machine, const ProgramArguments& a) {
      DelayedStores& of_block = stores[a.self * 2 + machine.block()];
      const DelayedMachine delayed{machine, of_block, releases};
      run_kernel<float, ReduceOp::sum>(delayed, a);
      machine.sync_block();
      if (machine.thread() == 0) of_block.show();
    };
  });
}

TEST(DeviceExecutors, NeedNoMoreOrderThanTheyAskFor) {
  for (const Protocol protocol : {Protocol::staged, Protocol::inline_packets}) {
    Repeated ring{3, Collective::all_reduce, "ring", protocol, 12};
    std::vector<kernels::device::DelayedStores> stores(6);
    use_delayed(ring, stores, true);
    EXPECT_TRUE(ring.world.run(ring.calls));
    EXPECT_TRUE(ring.right());
  }
}

TEST(DeviceExecutors, AMissingReleaseIsFound) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer reports the planted race itself";
#endif
  Repeated ring{3, Collective::all_reduce, "ring", Protocol::staged, 1};
  std::vector<kernels::device::DelayedStores> stores(6);
  use_delayed(ring, stores, false);
  EXPECT_TRUE(ring.world.run(ring.calls));
  EXPECT_FALSE(ring.right());
}

void erase_first(DeviceProgram& program, kernels::device::ProgramCode code) {
  const auto found = std::ranges::find(program.ops, code, &kernels::device::ProgramOp::code);
  ASSERT_NE(found, program.ops.end());
  program.ops.erase(found);
  for (auto& block : program.blocks) --block.end_op;
}

TEST(DeviceExecutors, AMissingSignalIsFound) {
  Repeated ring{2, Collective::all_reduce, "ring", Protocol::staged, 1};
  ring.world.spoil([](Rank rank, DeviceProgram& program) {
    if (rank == Rank{0}) erase_first(program, kernels::device::ProgramCode::signal);
  });
  EXPECT_FALSE(ring.world.run(ring.calls, 1, std::chrono::milliseconds{300}));
}

/// The receiver runs before the root has sent anything.
TEST(DeviceExecutors, AMissingWaitIsFound) {
  Repeated broadcast{2, Collective::broadcast, "flat", Protocol::staged, 1};
  broadcast.world.spoil([](Rank rank, DeviceProgram& program) {
    if (rank == Rank{1}) erase_first(program, kernels::device::ProgramCode::wait);
  });
  EXPECT_TRUE(broadcast.world.run_in_order({Rank{1}, Rank{0}}, broadcast.calls,
                                           std::chrono::milliseconds{300}));
  EXPECT_FALSE(broadcast.right());
}

/// A root that runs ahead fills its slots, and then waits for its readers; without that it
/// overwrites what they have yet to read.
TEST(DeviceExecutors, ASlotIsWrittenAgainAfterItsReadersHaveFinished) {
  for (const bool waits : {true, false}) {
    Repeated broadcast{2, Collective::broadcast, "flat", Protocol::staged, 5};
    if (!waits)
      broadcast.world.spoil([](Rank, DeviceProgram& program) {
        for (auto& block : program.blocks) block.readers = 0;
      });
    // Without a slot left the root waits, until the time is over.
    EXPECT_EQ(broadcast.world.run_in_order({Rank{0}, Rank{1}}, broadcast.calls,
                                           std::chrono::milliseconds{300}),
              !waits);
  }
}

TEST(DeviceExecutors, RefuseWhatNeedsTheHost) {
  const Call call{.shape = {.count = Elements{1000}}};
  const Choice choice{.algorithm = &algorithm_named(Collective::all_reduce, "direct"),
                      .protocol = Protocol::read_input};
  const DeviceSegments segments{2, 1, Bytes{4096}};
  const Plan plan =
      make_plan(call, choice, Hosts{2}, Rank{0},
                {.block = Bytes{1 << 20}, .cached_buffers = Bytes{1 << 20}}, segments.slots());
  EXPECT_THROW((DeviceProgram{plan, 2}), InvalidArgument);
  EXPECT_THROW((DeviceSegments{65, 1, Bytes{4096}}), InvalidArgument);
}

}  // namespace
}  // namespace capstan
