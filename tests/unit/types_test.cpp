// SPDX-License-Identifier: Apache-2.0
#include "capstan/types.hpp"

#include <gtest/gtest.h>

namespace capstan {
namespace {

TEST(Types, NamesRoundTrip) {
  for (DataType type : all_data_types()) EXPECT_EQ(data_type_named(name_of(type)), type);
  for (ReduceOp op : all_reduce_ops()) EXPECT_EQ(reduce_op_named(name_of(op)), op);
  EXPECT_EQ(data_type_named("f31"), std::nullopt);
  EXPECT_EQ(reduce_op_named(""), std::nullopt);
}

TEST(Types, SizesMatchTheCppTypes) {
  EXPECT_EQ(size_of(DataType::i8), Bytes{1});
  EXPECT_EQ(size_of(*data_type_of<BFloat16>), Bytes{sizeof(BFloat16)});
  EXPECT_EQ(size_of(*data_type_of<double>), Bytes{sizeof(double)});
}

/// Bits are those of integers; complex numbers have no order and no truth.
TEST(Types, SupportOperationsThatMakeSense) {
  using enum ReduceOp;
  using enum DataType;
  for (const DataType type : all_data_types())
    for (const ReduceOp op : all_reduce_ops()) {
      const bool bits = op == bit_and || op == bit_or || op == bit_xor;
      const bool adds = op == sum || op == product || op == average;
      EXPECT_EQ(supports(type, op), bits ? is_integer(type) : adds || !is_complex(type))
          << name_of(type) << " " << name_of(op);
    }
  EXPECT_TRUE(supports(f32, sum));
  EXPECT_FALSE(supports(f32, bit_xor));
  EXPECT_TRUE(supports(u8, bit_and));
  EXPECT_FALSE(supports(c64, max));
  EXPECT_TRUE(supports(c128, product));
}

}  // namespace
}  // namespace capstan
