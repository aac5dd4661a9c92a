// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "capstan/error.hpp"
#include "kernels/cpu/instruction_set.hpp"
#include "kernels/cpu/reduce.hpp"
#include "tests/unit/kernels_reference.hpp"

namespace capstan::kernels {
namespace {

constexpr std::array<std::size_t, 16> counts{0,  1,  2,  3,  7,  15,  16,   17,
                                             31, 33, 63, 64, 65, 100, 1000, 4099};
constexpr std::array<std::size_t, 7> source_counts{1, 2, 3, 4, 5, 8, 17};
constexpr std::size_t most_sources = 17;

template <class T>
T bits_as(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Random bit patterns, including NaNs, infinities and subnormals. For floats only one in sixteen,
/// as otherwise all sums would be NaN; half of the others are small integers, which cause ties.
template <class T>
T random_element(std::mt19937_64& random) {
  const std::uint64_t draw = random();
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(draw);
  } else {
    if (draw % 16 == 0) return bits_as<T>(random());
    if (draw % 32 == 1)
      return bits_as<T>(draw % 64 < 32 ? 0 : std::uint64_t{1} << (8 * sizeof(T) - 1));
    const auto integer = static_cast<double>(static_cast<std::int64_t>(draw >> 32 & 0xFFF) - 2048);
    const double value = (draw & 16) != 0 ? integer / 64 : integer * 0.0137;
    return reference::narrow<T>(static_cast<decltype(reference::widen(T{}))>(value));
  }
}

/// Room for elements at a chosen distance from a cache line's start, with guard bytes around them.
template <class T>
class GuardedArray {
 public:
  void reset(std::size_t offset, std::size_t count) {
    bytes_.assign(2 * guard + 64 + (offset + count) * sizeof(T), fill);
    const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
    start_ = guard + (-address % 64) + offset * sizeof(T);
    count_ = count;
  }
  void assign(std::size_t offset, std::span<const T> values) {
    reset(offset, values.size());
    if (!values.empty()) std::memcpy(data(), values.data(), values.size_bytes());
  }
  void* data() { return bytes_.data() + start_; }
  bool holds(std::span<const T> values) const {
    const std::size_t end = start_ + values.size_bytes();
    return values.size() == count_ && is_untouched(0, start_) && is_untouched(end, bytes_.size()) &&
           (values.empty() ||
            std::memcmp(&bytes_[start_], values.data(), values.size_bytes()) == 0);
  }

 private:
  static constexpr std::size_t guard = 64;
  static constexpr std::uint8_t fill = 0xA5;

  /// No more than two guards and an alignment gap lie between `begin` and `end`.
  bool is_untouched(std::size_t begin, std::size_t end) const {
    static const std::vector<std::uint8_t> untouched(2 * guard + 64 + 64 * sizeof(T), fill);
    return std::memcmp(&bytes_[begin], untouched.data(), end - begin) == 0;
  }

  std::vector<std::uint8_t> bytes_;
  std::size_t start_ = 0, count_ = 0;
};

/// The positions of the operands of one call.
struct Layout {
  std::size_t destination_offset, source_offset;  // elements after a cache line's start
  std::size_t in_place;                           // the source that the destination is, or >= n
  bool second, stream, fetch = false;
};

/// One set of sources with its expected result, called in many layouts.
template <class T>
class Case {
 public:
  Case(ReduceOp op, std::size_t sources, std::size_t count, std::uint32_t divisor)
      : op_(op), divisor_(divisor), values_(sources), expected_(count) {
    std::mt19937_64 random(sources * 10007 + count);
    for (auto& source : values_) {
      for (std::size_t i = 0; i < count; ++i) source.push_back(random_element<T>(random));
    }
    std::vector<T> column(sources);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t s = 0; s < sources; ++s) column[s] = values_[s][i];
      expected_[i] = reference::reduce<T>(op, column, divisor);
    }
  }

  /// The error; empty if there is none.
  std::string run(ReduceKernel kernel, const Layout& layout) {
    place(layout);
    Reduction call{};
    call.destination = destination(layout).data();
    call.second_destination = layout.second ? second_.data() : nullptr;
    void* const further[] = {further_[0].data(), further_[1].data()};
    call.further = further;
    call.further_count = layout.second ? std::size(further) : 0;
    call.sources = pointers_.data();
    call.source_count = values_.size();
    call.element_count = expected_.size();
    call.divisor = divisor_;
    call.stream_destination = layout.stream;
    call.fetch_ahead = layout.fetch;
    call.following = layout.second ? 5000 : 0;
    kernel(call);
    return check(layout) ? "" : describe(layout);
  }

 private:
  GuardedArray<T>& destination(const Layout& layout) {
    return layout.in_place < values_.size() ? sources_[layout.in_place] : destination_;
  }

  void place(const Layout& layout) {
    pointers_.clear();
    for (std::size_t s = 0; s < values_.size(); ++s) {
      const bool is_destination = s == layout.in_place;
      sources_[s].assign(
          is_destination ? layout.destination_offset : layout.source_offset * (s + 1), values_[s]);
      pointers_.push_back(sources_[s].data());
    }
    destination_.reset(layout.destination_offset, expected_.size());
    second_.reset(layout.source_offset, expected_.size());
    further_[0].reset(layout.destination_offset, expected_.size());
    further_[1].reset(layout.source_offset, expected_.size());
  }

  bool check(const Layout& layout) {
    for (std::size_t s = 0; s < values_.size(); ++s) {
      if (s != layout.in_place && !sources_[s].holds(values_[s])) return false;
    }
    const auto holds = [&](GuardedArray<T>& array) { return array.holds(expected_); };
    return holds(destination(layout)) &&
           (!layout.second || (holds(second_) && std::ranges::all_of(further_, holds)));
  }

  std::string describe(const Layout& layout) const {
    return std::string(name_of(op_)) + " of " + std::to_string(values_.size()) + " sources, " +
           std::to_string(expected_.size()) + " elements, divisor " + std::to_string(divisor_) +
           ", offsets " + std::to_string(layout.destination_offset) + " and " +
           std::to_string(layout.source_offset) + ", in place " + std::to_string(layout.in_place) +
           (layout.second ? ", second and further" : "") + (layout.stream ? ", stream" : "") +
           (layout.fetch ? ", fetch" : "");
  }

  ReduceOp op_;
  std::uint32_t divisor_;
  std::vector<std::vector<T>> values_;
  std::vector<T> expected_;
  std::array<GuardedArray<T>, most_sources> sources_;
  GuardedArray<T> destination_, second_;
  std::array<GuardedArray<T>, 2> further_;
  std::vector<const void*> pointers_;
};

/// All layouts of short calls, and those layouts of long calls that end differently.
std::vector<Layout> layouts(std::size_t sources, std::size_t count) {
  std::vector<Layout> result;
  for (std::size_t in_place = 0; in_place <= sources; ++in_place) {
    const bool inner = in_place != 0 && in_place + 1 < sources;
    if (inner && (count > 100 || in_place > 4)) continue;
    for (const auto& [destination, source] : {std::pair{0, 0}, {0, 1}, {1, 0}, {3, 1}}) {
      for (int mode = 0; mode < 4; ++mode) {
        Layout layout{static_cast<std::size_t>(destination), static_cast<std::size_t>(source),
                      in_place, mode % 2 == 1, mode / 2 == 1};
        result.push_back(layout);
        layout.fetch = true;
        if (count > 1000) result.push_back(layout);
      }
    }
  }
  return result;
}

template <class T>
void check_operation(ReduceKernel kernel, ReduceOp op) {
  for (const std::size_t sources : source_counts) {
    for (const std::size_t count : counts) {
      const auto divisor = static_cast<std::uint32_t>(op == ReduceOp::average ? sources : 1);
      Case<T> one_case(op, sources, count, divisor);
      for (const Layout& layout : layouts(sources, count)) {
        ASSERT_EQ(one_case.run(kernel, layout), "");
      }
    }
  }
}

template <class T>
void check_type(std::string_view target) {
  for (const ReduceOp op : all_reduce_ops()) {
    if (supports(*data_type_of<T>, op))
      check_operation<T>(reduce_kernel_for(target, *data_type_of<T>, op), op);
  }
}

using TargetAndType = std::tuple<std::string_view, DataType>;
class KernelsReduce : public testing::TestWithParam<TargetAndType> {};

TEST_P(KernelsReduce, MatchesTheScalarReferenceBitForBit) {
  const auto [target, type] = GetParam();
  switch (type) {
    case DataType::i8:
      return check_type<std::int8_t>(target);
    case DataType::u8:
      return check_type<std::uint8_t>(target);
    case DataType::i32:
      return check_type<std::int32_t>(target);
    case DataType::u32:
      return check_type<std::uint32_t>(target);
    case DataType::i64:
      return check_type<std::int64_t>(target);
    case DataType::u64:
      return check_type<std::uint64_t>(target);
    case DataType::f16:
      return check_type<Float16>(target);
    case DataType::bf16:
      return check_type<BFloat16>(target);
    case DataType::f32:
      return check_type<float>(target);
    case DataType::f64:
      return check_type<double>(target);
    default:
      FAIL() << "see kernels_composed_test";
  }
}

std::string test_name(const testing::TestParamInfo<TargetAndType>& parameter) {
  const auto& [target, type] = parameter.param;
  return test_name_of(target) + "_" + std::string(name_of(type));
}

const auto targets = testing::ValuesIn(available_targets().begin(), available_targets().end());
const auto types = testing::ValuesIn(all_data_types().begin(), all_data_types().begin() + 10);
INSTANTIATE_TEST_SUITE_P(All, KernelsReduce, testing::Combine(targets, types), test_name);

TEST(KernelsTargets, BestIsActiveAndUnknownIsRefused) {
  ASSERT_FALSE(available_targets().empty());
  EXPECT_EQ(active_target(), available_targets().front());
  for (DataType type : all_data_types()) {
    for (ReduceOp op : all_reduce_ops()) {
      if (supports(type, op)) {
        EXPECT_EQ(reduce_kernel(type, op), reduce_kernel_for(active_target(), type, op));
      } else {
        EXPECT_THROW(reduce_kernel(type, op), InvalidArgument);
      }
    }
  }
  EXPECT_THROW(reduce_kernel_for("MMX", DataType::f32, ReduceOp::sum), InvalidArgument);
  EXPECT_THROW(copy_kernel_for(""), InvalidArgument);
}

TEST(KernelsTargets, CarryTheNamesOfTheirMakers) {
  EXPECT_EQ(instruction_set("AVX3"), "AVX-512");
  EXPECT_EQ(instruction_set("AVX3_DL"), "AVX-512 (Ice Lake)");
  EXPECT_EQ(instruction_set("SSE4"), "SSE4.2");
  EXPECT_EQ(instruction_set("AVX2"), "AVX2");
  for (const std::string_view target : available_targets())
    EXPECT_EQ(target.find("AVX3"), target.npos) << target;
}

}  // namespace
}  // namespace capstan::kernels
