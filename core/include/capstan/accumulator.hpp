// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "capstan/communicator.hpp"
#include "capstan/export.hpp"
#include "capstan/quantity.hpp"
#include "capstan/types.hpp"

namespace CAPSTAN_EXPORT capstan {

/// Exact sums of floating-point numbers: the bits of a result depend on the numbers that were added
/// and on nothing else, not on their order nor on how many ranks have added which of them. A result
/// is the exact sum, rounded once, to nearest even.
///
///   Accumulator sums{DataType::f32, Elements{gradient.size()}};
///   for (const Batch& batch : mine) sums.add(gradient_of(batch));
///   sums.all_reduce(world);
///   sums.result(gradient);
///
/// The sums are fixed-point numbers in planes of 32 bits, of which there are as many as the numbers
/// need: 2 to 4 for gradients, 8 bytes of memory and of traffic each per element. Infinities and
/// NaNs give what any sum of them does; a sum of zeros is +0. One thread uses it at a time.
class Accumulator {
 public:
  /// `type`: of the numbers and of the results, f16, bf16, f32, f64, c64 or c128. Throws
  /// InvalidArgument for another one.
  Accumulator(DataType type, Elements count);

  DataType type() const { return type_; }
  Elements count() const { return count_; }

  /// Adds to each element that of an array. Throws InvalidArgument if type or length differ.
  template <ElementRange In>
  void add(In&& numbers) {
    add(element_type_of<In>(), std::ranges::data(numbers), Elements{std::ranges::size(numbers)});
  }
  void add(DataType type, const void* numbers, Elements count);

  /// Adds up the accumulators of all ranks, which have the same type and length. All of them hold
  /// the sum afterwards: reset() before the next one.
  void all_reduce(Communicator& world);

  /// The sums, rounded.
  template <MutableElementRange Out>
  void result(Out&& sums) const {
    result(element_type_of<Out>(), std::ranges::data(sums), Elements{std::ranges::size(sums)});
  }
  void result(DataType type, void* sums, Elements count) const;

  /// Back to zeros. The memory is kept.
  void reset();

 private:
  void check(const char* call, DataType type, Elements count) const;
  int held() const;  // planes
  void make_room(int first, int last);
  void carry();

  DataType type_;
  Elements count_;
  std::size_t numbers_;               // real ones: complex elements are two
  int first_ = 0;                     // of the planes that are held: it counts 32 bits from 2^-1088
  std::vector<std::int64_t> planes_;  // one after the other; each a digit of every number
  std::vector<std::int64_t> specials_;  // three more: +infinities, -infinities and NaNs, counted
  std::int64_t added_ = 0;              // arrays, since digits were carried
};

}  // namespace CAPSTAN_EXPORT capstan
