// SPDX-License-Identifier: Apache-2.0

// The kernels of devices, from the source that CUDA and HIP compile, on threads of the processor.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>

#include "kernels/emulation/kernels.hpp"
#include "tests/devices/operands.hpp"

namespace capstan {
namespace {

using namespace kernels::device;

constexpr std::size_t counts[] = {0, 1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 64, 100, 257, 1000, 4099};

/// Bytes that an operand begins after a 64-byte boundary: aligned alike, by elements, by bytes.
constexpr std::array<std::array<std::size_t, 3>, 6> alignments = {
    {{0, 0, 0}, {16, 32, 48}, {8, 24, 40}, {0, 4, 8}, {2, 6, 10}, {1, 3, 5}}};

/// Memory at a distance from a boundary, with guards around it.
class Guarded {
 public:
  Guarded(std::span<const std::byte> content, std::size_t distance)
      : bytes_(content.size() + 3 * guard, std::byte{0xA5}), size_(content.size()) {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
    begin_ = guard + (-address % guard) + distance % guard;
    std::ranges::copy(content, data());
  }
  std::byte* data() { return bytes_.data() + begin_; }
  bool holds(const std::vector<std::byte>& expected) {
    const auto is_guard = [](std::byte b) { return b == std::byte{0xA5}; };
    const auto end = bytes_.begin() + static_cast<std::ptrdiff_t>(begin_ + size_);
    return std::equal(expected.begin(), expected.end(), data(), data() + size_) &&
           std::all_of(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(begin_),
                       is_guard) &&
           std::all_of(end, bytes_.end(), is_guard);
  }

 private:
  static constexpr std::size_t guard = 64;
  std::vector<std::byte> bytes_;
  std::size_t size_, begin_ = 0;
};

struct Shape {
  DataType type;
  ReduceOp op;
  std::size_t sources, count, alignment;
  bool in_place;

  std::uint32_t divisor() const { return op == ReduceOp::average ? 3 + count % 2 : 1; }
  std::string text() const {
    return fmt::format("{} {}, {} sources, {} elements, alignment {}{}", name_of(type), name_of(op),
                       sources, count, alignment, in_place ? ", in place" : "");
  }
};

template <unsigned warp>
EmulatedKernel<warp> kernel_of(const Shape& shape) {
  return emulated_kernel<warp>(
      fmt::format("capstan_reduce_{}_{}", name_of(shape.type), name_of(shape.op)));
}

/// Runs one reduction with two destinations, of different alignment, and compares.
template <unsigned warp, class Runner>
bool is_right(const Shape& shape, const Grid& grid, const Runner& runner) {
  std::vector<std::vector<std::byte>> values;
  for (std::size_t s = 0; s < shape.sources; ++s)
    values.push_back(random_elements(shape.type, shape.count, shape.count * 31 + s));
  const auto expected = reduced_by_processor(shape.type, shape.op, values, shape.divisor());

  const auto& distances = alignments[shape.alignment];
  std::vector<std::unique_ptr<Guarded>> sources;
  for (const auto& value : values)
    sources.push_back(std::make_unique<Guarded>(value, distances[sources.size() % 3]));
  Guarded own{std::vector<std::byte>(expected.size()), distances[0]};
  Guarded second{std::vector<std::byte>(expected.size()), distances[1]};
  Guarded& first = shape.in_place ? *sources.back() : own;

  ReduceArguments arguments{.element_count = shape.count,
                            .source_count = static_cast<std::uint32_t>(shape.sources),
                            .destination_count = 2,
                            .divisor = shape.divisor()};
  for (std::size_t s = 0; s < shape.sources; ++s) arguments.sources[s] = sources[s]->data();
  arguments.destinations[0] = first.data();
  arguments.destinations[1] = second.data();
  runner(grid, [&](const auto& machine) { kernel_of<warp>(shape)(machine, arguments); });
  return first.holds(expected) && second.holds(expected);
}

template <unsigned warp>
bool is_right_in_turn(const Shape& shape, unsigned blocks) {
  return is_right<warp>(
      shape, {blocks, 2 * warp, shape.count},
      [](const Grid& grid, const auto& kernel) { run_in_turn<warp>(grid, kernel); });
}

TEST(DeviceKernelsEmulated, ExistForAllTypesAndOperations) {
  for (const DataType type : all_data_types())
    for (const ReduceOp op : all_reduce_ops())
      EXPECT_EQ(kernel_of<4>({type, op, 1, 1, 0, false}) != nullptr, supports(type, op))
          << name_of(type) << " " << name_of(op);
}

/// Numbers of sources, alignments and places take turns, so that each type and operation meets all.
TEST(DeviceKernelsEmulated, AgreeWithTheProcessorBitForBit) {
  constexpr std::size_t numbers[] = {1, 2, 3, 5, 17};
  std::size_t turn = 0;
  for (const DataType type : all_data_types())
    for (const ReduceOp op : all_reduce_ops()) {
      if (!supports(type, op)) continue;
      for (const std::size_t count : counts)
        for (int round = 0; round < 2; ++round, ++turn) {
          const Shape shape{type, op, numbers[turn % 5], count, turn % 6, turn % 7 == 0};
          ASSERT_TRUE(is_right_in_turn<4>(shape, 1 + turn % 3)) << shape.text();
        }
    }
}

TEST(DeviceKernelsEmulated, AgreeAtEachAlignment) {
  for (std::size_t alignment = 0; alignment < alignments.size(); ++alignment)
    for (const DataType type : all_data_types())
      for (const std::size_t count : {7U, 700U}) {
        const Shape shape{type, ReduceOp::sum, 3, count, alignment, false};
        EXPECT_TRUE(is_right_in_turn<4>(shape, 2)) << shape.text();
      }
}

template <unsigned warp>
void expect_agreement() {
  for (const auto& [type, op] : {std::pair{DataType::u8, ReduceOp::sum},
                                 {DataType::f16, ReduceOp::max},
                                 {DataType::f32, ReduceOp::sum},
                                 {DataType::c128, ReduceOp::product}})
    for (const std::size_t count : counts)
      for (std::size_t alignment = 0; alignment < alignments.size(); ++alignment) {
        const Shape shape{type, op, 3, count, alignment, false};
        EXPECT_TRUE(is_right_in_turn<warp>(shape, 2)) << shape.text();
      }
}
TEST(DeviceKernelsEmulated, AgreeWithTheWarpsOfDevices) {
  expect_agreement<32>();
  expect_agreement<64>();
}

TEST(DeviceKernelsEmulated, AgreeWhenAllThreadsRunAtOnce) {
  for (const bool in_place : {false, true})
    for (const std::size_t alignment : {0U, 4U}) {
      const Shape shape{DataType::bf16, ReduceOp::average, 4, 4099, alignment, in_place};
      EXPECT_TRUE(is_right<4>(shape, {2, 16, 7}, [](const Grid& grid, const auto& kernel) {
        run<4>(grid, kernel);
      })) << shape.text();
    }
}

TEST(DeviceKernelsEmulated, AllHalvesAreConvertedAsTheProcessorDoes) {
  const auto machine = machine_of<32>({1, 32, 1}, 0, nullptr);
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = machine.half_to_float(half);
    if (value == value) {
      EXPECT_EQ(machine.float_to_half(value), half);
    }
  }
}

/// Blocks of 3 warps; each thread passes its number on to its neighbour in the warp.
TEST(EmulatedMachine, WarpsShuffleAndBlocksMeet) {
  std::vector<std::uint64_t> got(2 * 24), sums(2);
  run<8>({2, 24, 3}, [&](const auto& m) {
    const std::uint64_t number = m.block() * 100 + m.thread();
    for (unsigned round = 0; round < 3; ++round) {
      const unsigned lane = m.thread() % 8;
      got[m.block() * 24 + m.thread()] = m.shuffle(number, (lane + 1) % 8);
      m.sync_block();
      if (m.thread() == 0)
        for (unsigned i = 0; i < 24; ++i) sums[m.block()] += got[m.block() * 24 + i];
      m.sync_block();
    }
  });
  EXPECT_EQ(got[0], 1U);
  EXPECT_EQ(got[7], 0U);
  EXPECT_EQ(got[24 + 9], 110U);
  EXPECT_EQ(sums[0], 3U * (23 * 24 / 2));
}

/// Stores before a release are seen after the acquire of the word that was raised.
TEST(EmulatedMachine, WordsAreHandedOnBetweenBlocks) {
  std::vector<std::uint64_t> data(16);
  std::uint64_t flag = 0;
  bool all = true;
  run<8>({2, 8, 5}, [&](const auto& m) {
    if (m.block() == 0) {
      data[m.thread()] = m.thread() + 1;
      m.sync_block();
      if (m.thread() == 0) m.release(), m.raise(&flag, 1);
    } else {
      if (m.thread() == 0) {
        while (m.poll(&flag) == 0) m.pause();
        m.acquire(&flag);
      }
      m.sync_block();
      if (m.thread() == 3)
        for (unsigned i = 0; i < 8; ++i) all = all && data[i] == i + 1;
    }
  });
  EXPECT_TRUE(all);
}

TEST(DeviceKernels, GridsFitTheDataAndTheDevice) {
  EXPECT_EQ(blocks_for(1, 132), 1U);
  EXPECT_EQ(blocks_for(16 << 10, 132), 1U);
  EXPECT_EQ(blocks_for((16 << 10) + 1, 132), 2U);
  EXPECT_EQ(blocks_for(std::uint64_t{1} << 30, 132), 2112U);
}

}  // namespace
}  // namespace capstan
