#pragma once

#include <cstddef>
#include <vector>

#include "core/ir/types.hpp"

namespace capstan::cli {

/// Test data for measurements: distinct per rank and index, small whole numbers, so that the right
/// result is known exactly for every type and operation.
class TestData {
 public:
  TestData(DataType type, ReduceOp op, int ranks);

  /// What rank `rank` contributes, elements 0 .. count-1.
  void fill(void* memory, std::size_t count, int rank) const;
  /// Elements of a result that are not what they should be.
  std::uint64_t count_wrong(const void* memory, std::size_t count) const;
  /// Overwrites a result buffer, so that nothing is right by accident.
  void spoil(void* memory, std::size_t count) const;

 private:
  static constexpr std::size_t period = 1009;  // prime: a displaced block shows

  double value(int rank, std::size_t index) const;
  double reduced(std::size_t index) const;

  DataType type_;
  ReduceOp op_;
  int ranks_;
  std::vector<double> expected_;
};

}  // namespace capstan::cli
