// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "capstan/collective.hpp"
#include "capstan/types.hpp"

namespace capstan::perf {

/// Test data for measurements: small whole numbers that differ by rank and index. So the right
/// result of every collective is known exactly, for every type and operation.
class TestData {
 public:
  /// `op` is ignored by collectives that do not reduce.
  TestData(DataType type, ReduceOp op, const Contract& contract, int ranks);

  /// Writes the contribution of rank `rank` to its input.
  void fill(void* input, int rank) const;
  /// The number of wrong elements in rank `rank`'s output.
  std::uint64_t count_wrong(const void* output, int rank) const;
  /// Overwrites a buffer, so that no result is right by accident.
  void spoil(void* memory, Elements count) const;

 private:
  static constexpr std::size_t period = 1009;  // prime, so that a displaced block is noticed
  using Pattern = std::vector<double>;         // entry i: the value at index i modulo the period

  /// Complex numbers have equal parts, except where they are multiplied: then they are real.
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
