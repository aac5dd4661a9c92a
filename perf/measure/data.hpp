#pragma once

#include <cstddef>
#include <vector>

#include "capstan/collective.hpp"
#include "capstan/types.hpp"

namespace capstan::perf {

/// Test data for measurements: distinct per rank and index, small whole numbers, so that the right
/// result of every collective is known exactly for every type and operation.
class TestData {
 public:
  /// `op` is that of a collective that reduces.
  TestData(DataType type, ReduceOp op, const Contract& contract, int ranks);

  /// What rank `rank` contributes.
  void fill(void* input, int rank) const;
  /// Elements of its output that are not what they should be.
  std::uint64_t count_wrong(const void* output, int rank) const;
  /// Overwrites a buffer, so that nothing is right by accident.
  void spoil(void* memory, Elements count) const;

 private:
  static constexpr std::size_t period = 1009;  // prime: a displaced block shows
  using Pattern = std::vector<double>;         // by index modulo the period

  /// Complex numbers: the parts are alike, but where they are multiplied.
  bool real_only() const { return reduces(contract_.collective()) && op_ == ReduceOp::product; }
  double value(int rank, std::size_t index) const;
  Pattern expected(const Contract::Promise& promise) const;
  std::uint64_t count_wrong(const void* output, Range range, Contract::Promise promise) const;

  DataType type_;
  ReduceOp op_;
  Contract contract_;
  int ranks_;
};

}  // namespace capstan::perf
