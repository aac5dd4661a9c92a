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

}  // namespace
}  // namespace capstan
