// SPDX-License-Identifier: Apache-2.0

// Programs of devices are proven as the kernel runs them: merged signals, waits and copies, dropped
// notices, barriers of threads, slots, addresses. Each of them, done wrong, is refused.

#include "core/engine/run/device_proof.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "core/schedule/proof/shapes.hpp"
#include "tests/proofs/builds.hpp"

namespace capstan {
namespace {

using kernels::device::ProgramCode;
using kernels::device::ProgramOp;
using ::testing::HasSubstr;
using Change = std::function<void(Rank, DeviceProgram&)>;

constexpr Protocol device_protocols[] = {Protocol::staged, Protocol::inline_packets,
                                         Protocol::shared_inline_packets};

std::string text(const proof::Result& result) {
  std::string all;
  for (const auto& finding : result.findings) all += finding.message + "\n";
  return all;
}

/// Devices, and the calls that were made ready for them.
class ProvenDevices {
 public:
  explicit ProvenDevices(int ranks) : ranks_(ranks), segments_(ranks, 1, Bytes{4096}) {}

  bool suits(const Algorithm& algorithm, Protocol protocol, const Call& call) const {
    const Hosts hosts{ranks_};
    if (ranks_ > algorithm.max_ranks || !algorithm.suits(hosts)) return false;
    return !in_packets(protocol) || fits_packets(algorithm, protocol, hosts, call, device_slots);
  }
  /// An average, so that the marks of complete sums show in divisors. `block`: elements; 0: all.
  static Call call_of(const Algorithm& algorithm, const Shape& shape) {
    return {.collective = algorithm.collective,
            .type = DataType::f64,
            .op = ReduceOp::average,
            .shape = shape};
  }
  void add(const Algorithm& algorithm, Protocol protocol, const Shape& shape, std::uint64_t block,
           const Change& change = nullptr) {
    const Call call = call_of(algorithm, shape);
    const Elements whole = std::max(call.contract(ranks_).extent(), Elements{1});
    plans_.push_back(std::make_unique<ByRank<Plan>>(
        make_plans(call, {.algorithm = &algorithm, .protocol = protocol}, Hosts{ranks_},
                   block == 0 ? whole : Elements{block}, segments_.slots(), Bytes{1 << 30})));
    programs_.push_back(std::make_unique<DevicePrograms>(*plans_.back()));
    if (!change) return;
    for (const Rank rank : all_ranks(ranks_)) change(rank, programs_.back()->programs[rank]);
  }
  /// All calls one after another, or in `order`.
  proof::Result prove(bool in_place, const std::vector<std::size_t>& order) const {
    std::vector<const DevicePrograms*> calls;
    for (const std::size_t i : order) calls.push_back(programs_[i].get());
    return prove_on_devices(calls, segments_, {.in_place = in_place});
  }
  std::size_t size() const { return programs_.size(); }

 private:
  const int ranks_;
  const DeviceSegments segments_;
  std::vector<std::unique_ptr<ByRank<Plan>>> plans_;
  std::vector<std::unique_ptr<DevicePrograms>> programs_;
};

/// An algorithm in one protocol, called again and again.
struct Subject {
  Collective collective;
  const char* algorithm;
  Protocol protocol;
  int ranks;
  std::uint64_t count, block = 0;

  std::string proven(bool in_place, const Change& change = nullptr) const {
    ProvenDevices devices{ranks};
    devices.add(algorithm_named(collective, algorithm), protocol, {.count = Elements{count}}, block,
                change);
    return text(devices.prove(in_place, {0, 0, 0, 0}));
  }
  /// Findings in place and not. A subject that is right has none without the change.
  std::string found(const Change& change) const {
    EXPECT_EQ(proven(true) + proven(false), "");
    return proven(true, change) + proven(false, change);
  }
};

const Subject subjects[] = {
    {Collective::all_reduce, "ring", Protocol::staged, 4, 13},
    {Collective::all_reduce, "direct", Protocol::staged, 3, 64, 20},
    {Collective::all_reduce, "recursive_doubling", Protocol::staged, 4, 9},
    {Collective::all_reduce, "binomial_tree", Protocol::staged, 4, 9},
    {Collective::all_gather, "bruck", Protocol::staged, 3, 5},
    {Collective::broadcast, "chain", Protocol::staged, 3, 40, 10},
};

class DeviceProof : public ::testing::TestWithParam<const Algorithm*> {};

TEST_P(DeviceProof, Programs) {
  const Algorithm& algorithm = *GetParam();
  int proven = 0;
  for (const int ranks : {1, 2, 3, 5})
    for (const Protocol protocol : device_protocols)
      for (const Shape& shape : awkward_shapes(algorithm.collective, ranks)) {
        ProvenDevices devices{ranks};
        if (!devices.suits(algorithm, protocol, ProvenDevices::call_of(algorithm, shape))) continue;
        devices.add(algorithm, protocol, shape, 0);
        for (const bool in_place : {true, false}) {
          const auto result = devices.prove(in_place, {0, 0, 0, 0});
          ASSERT_TRUE(result.ok()) << full_name(algorithm) << ' ' << name_of(protocol) << ", "
                                   << ranks << " ranks, " << shape.count.value() << " elements\n"
                                   << text(result);
          ++proven;
        }
      }
  EXPECT_GT(proven, 0);
}

/// Packets are not cut where ranks have parts of the buffers.
std::uint64_t block_for(const Algorithm& algorithm, Protocol protocol, int ranks) {
  const Contract contract{algorithm.collective, {.count = Elements{1}}, ranks};
  if (!in_packets(protocol)) return static_cast<std::uint64_t>(5 * ranks);
  return contract.input_blocks(0) || contract.output_blocks(0) ? 0 : staging_unit.value();
}

/// Calls of several lengths, in both kinds of slots, in blocks that lanes share.
TEST_P(DeviceProof, ProgramsOfSeveralBlocksAmongOthers) {
  const Algorithm& algorithm = *GetParam();
  std::mt19937 random{7};
  for (int ranks = 2; ranks <= 4; ++ranks) {
    ProvenDevices devices{ranks};
    for (const Protocol protocol : device_protocols)
      for (const std::uint64_t count : {6U, 40U, 333U}) {
        const Shape shape{.count = Elements{count},
                          .root = has_root(algorithm.collective) ? ranks - 1 : 0};
        if (devices.suits(algorithm, protocol, ProvenDevices::call_of(algorithm, shape)))
          devices.add(algorithm, protocol, shape, block_for(algorithm, protocol, ranks));
      }
    if (devices.size() == 0) continue;
    std::vector<std::size_t> order(8);
    for (std::size_t& call : order) call = random() % devices.size();
    for (const bool in_place : {true, false}) {
      const auto result = devices.prove(in_place, order);
      ASSERT_TRUE(result.ok()) << full_name(algorithm) << ", " << ranks << " ranks\n"
                               << text(result);
    }
  }
}

std::vector<const Algorithm*> algorithms_of_devices() {
  std::vector<const Algorithm*> all = every_algorithm();
  std::erase_if(all, [](const Algorithm* each) {
    return has_counts(each->collective) || each->collective == Collective::barrier ||
           each->requirement != Requires::anywhere;
  });
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, DeviceProof, ::testing::ValuesIn(algorithms_of_devices()),
                         [](const auto& each) { return full_name(*each.param); });

/// The first operation of rank 1 that is meant.
ProgramOp* first_of(DeviceProgram& program, const std::function<bool(const ProgramOp&)>& is_meant) {
  const auto found = std::ranges::find_if(program.ops, is_meant);
  return found == program.ops.end() ? nullptr : &*found;
}

/// Each barrier of each operation that reads, writes or signals. One before a wait, at whose end
/// all threads meet, may be one too many, and so may one that is for buffers in place alone.
TEST(DeviceSabotage, ABarrierOfThreadsThatIsLeftOut) {
  for (const Subject& subject : subjects) {
    int refused = 0, barriers = 0;
    for (std::size_t i = 0, ops = 1; i < ops; ++i) {
      bool changed = false;
      const std::string found = subject.proven(true, [&](Rank rank, DeviceProgram& program) {
        if (rank != Rank{1}) return;
        ops = program.ops.size();
        ProgramOp& op = program.ops[i];
        changed = op.code != ProgramCode::wait && std::exchange(op.meets, 0U) != 0;
      });
      if (!changed) continue;
      ++barriers;
      refused += found.empty() ? 0 : 1;
    }
    EXPECT_GT(barriers, 0) << subject.algorithm;
    EXPECT_EQ(refused, barriers) << subject.algorithm;
  }
}

TEST(DeviceSabotage, AMergedSignalThatLeavesAPeerOut) {
  const auto of_many = [](const ProgramOp& op) {
    return op.code == ProgramCode::signal && std::popcount(op.peers) > 1;
  };
  const Subject direct{Collective::all_reduce, "direct", Protocol::staged, 4, 12};
  EXPECT_THAT(direct.found([&](Rank rank, DeviceProgram& program) {
    if (rank != Rank{1}) return;
    ProgramOp* const op = first_of(program, of_many);
    ASSERT_NE(op, nullptr);
    op->peers &= op->peers - 1;
  }),
              HasSubstr("waits for ever"));
}

TEST(DeviceSabotage, AMergedWaitThatLeavesAPeerOut) {
  const auto of_many = [](const ProgramOp& op) {
    return op.code == ProgramCode::wait && std::popcount(op.peers) > 1;
  };
  const Subject direct{Collective::all_reduce, "direct", Protocol::staged, 4, 12};
  EXPECT_THAT(direct.found([&](Rank rank, DeviceProgram& program) {
    if (rank != Rank{1}) return;
    ProgramOp* const op = first_of(program, of_many);
    ASSERT_NE(op, nullptr);
    op->peers &= op->peers - 1;
  }),
              HasSubstr("which waits for it"));
}

/// A wait for data that is merged with an earlier one, across the signal in between.
TEST(DeviceSabotage, WaitsThatAreMergedAcrossASignal) {
  const Subject direct{Collective::all_reduce, "direct", Protocol::staged, 3, 12};
  EXPECT_NE(direct.found([](Rank, DeviceProgram& program) {
    const auto waits = [](const ProgramOp& op) { return op.code == ProgramCode::wait; };
    const auto first = std::ranges::find_if(program.ops, waits);
    const auto second = std::find_if(first + 1, program.ops.end(), waits);
    ASSERT_NE(second, program.ops.end());
    std::rotate(first + 1, second, second + 1);
  }),
            "");
}

/// A copy that goes to where another operation's result belongs.
TEST(DeviceSabotage, ACopyThatIsMergedWithACopyOfOtherBytes) {
  const Subject direct{Collective::all_to_all, "direct", Protocol::staged, 3, 4};
  EXPECT_NE(direct.found([](Rank rank, DeviceProgram& program) {
    if (rank != Rank{1}) return;
    auto& block = program.blocks.front();
    const auto is_copy = [](const ProgramOp& op) {
      return op.code == ProgramCode::gather && op.source_count == 1 && op.destination_count == 1;
    };
    const auto first = std::ranges::find_if(program.ops, is_copy);
    const auto second = std::find_if(first + 1, program.ops.end(), is_copy);
    ASSERT_NE(second, program.ops.end());
    // The first copy takes over the second one's destination, which lies behind its own.
    auto& operands = program.operands;
    const auto at = operands.begin() + block.first_operand;
    std::swap(at[second->first_source], at[second->first_source + 1]);
    ASSERT_EQ(second->first_source, first->first_source + 2);
    ++first->destination_count;
    first->staged_destinations |= second->staged_destinations << 1;
    program.ops.erase(second);
    --block.end_op;
  }),
            "");
}

TEST(DeviceSabotage, ASlotThatIsWrittenWhileItsReadersAreNotAwaited) {
  for (const Protocol protocol : {Protocol::staged, Protocol::inline_packets}) {
    const Subject flat{Collective::broadcast, "flat", protocol, 3, 9};
    EXPECT_THAT(flat.found([](Rank, DeviceProgram& program) {
      for (auto& block : program.blocks) block.readers &= ~std::uint64_t{2};
    }),
                ::testing::Not(::testing::IsEmpty()));
  }
}

TEST(DeviceSabotage, AWriterThatIsNotToldThatItsSlotIsRead) {
  for (const Protocol protocol : {Protocol::staged, Protocol::inline_packets}) {
    const Subject flat{Collective::broadcast, "flat", protocol, 3, 9};
    EXPECT_THAT(flat.found([](Rank rank, DeviceProgram& program) {
      if (rank == Rank{2})
        for (auto& block : program.blocks) block.writers = 0;
    }),
                HasSubstr("to use the slot of block"));
  }
}

TEST(DeviceSabotage, BlocksThatOverlap) {
  const Subject direct{Collective::all_reduce, "direct", Protocol::staged, 3, 64, 20};
  EXPECT_THAT(direct.found([](Rank rank, DeviceProgram& program) {
    ASSERT_GT(program.block_count, 1U);
    if (rank == Rank{1}) program.block_distance -= 8;
  }),
              HasSubstr("which another lane may run at the same time"));
}

TEST(DeviceSabotage, ALastBlockThatIsAsLongAsTheOthers) {
  const Subject direct{Collective::all_reduce, "direct", Protocol::staged, 3, 50, 20};
  EXPECT_NE(direct.found([](Rank, DeviceProgram& program) {
    ASSERT_EQ(program.blocks.size(), 2U);
    program.blocks.pop_back();
  }),
            "");
}

TEST(DeviceSabotage, AnOperandAtAnotherPlace) {
  for (const Protocol protocol : {Protocol::staged, Protocol::inline_packets}) {
    const Subject direct{Collective::all_gather, "direct", protocol, 3, 6};
    for (std::size_t i = 0, operands = 1; i < operands; ++i) {
      const std::string found = direct.proven(false, [&](Rank rank, DeviceProgram& program) {
        if (rank != Rank{1}) return;
        operands = program.operands.size();
        program.operands[i].offset += 8;
      });
      EXPECT_NE(found, "") << "operand " << i;
    }
  }
}

TEST(DeviceSabotage, APacketThatIsReadAsIfItWereNone) {
  const Subject direct{Collective::all_gather, "direct", Protocol::inline_packets, 3, 6};
  EXPECT_NE(direct.found([](Rank rank, DeviceProgram& program) {
    if (rank != Rank{1}) return;
    ProgramOp* const op =
        first_of(program, [](const ProgramOp& each) { return each.staged_sources != 0; });
    ASSERT_NE(op, nullptr);
    op->staged_sources = 0;
  }),
            "");
}

TEST(DeviceSabotage, AnAverageThatIsNotDivided) {
  const Subject ring{Collective::all_reduce, "ring", Protocol::staged, 3, 9};
  EXPECT_THAT(ring.found([](Rank, DeviceProgram& program) {
    for (ProgramOp& op : program.ops) op.divisor = 1;
  }),
              HasSubstr("never marked complete"));
}

}  // namespace
}  // namespace capstan
