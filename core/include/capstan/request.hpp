// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <ranges>
#include <span>
#include <type_traits>
#include <vector>

#include "capstan/collective.hpp"
#include "capstan/export.hpp"
#include "capstan/foreign_type.hpp"
#include "capstan/reducer.hpp"
#include "capstan/types.hpp"

namespace CAPSTAN_EXPORT capstan {

/// A contiguous range of elements that a collective reads: std::span, std::vector, std::array,
/// std::string. Types that are no Element are refused in one line, by element_type_of().
template <class R>
concept ElementRange = std::ranges::contiguous_range<R> && std::ranges::sized_range<R>;

/// An element range that a collective writes.
template <class R>
concept MutableElementRange =
    ElementRange<R> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

/// An element range that still exists after the expression in which it is passed: a variable or a
/// view, not a temporary vector. What runs in the background uses such ranges.
template <class R>
concept LastingRange = ElementRange<R> && std::ranges::borrowed_range<R>;
template <class R>
concept LastingMutableRange = MutableElementRange<R> && std::ranges::borrowed_range<R>;

template <class A, class B>
concept SameElements =
    std::same_as<std::ranges::range_value_t<A>, std::ranges::range_value_t<B>> ||
    (Element<std::ranges::range_value_t<A>> &&
     data_type_of<std::ranges::range_value_t<A>> == data_type_of<std::ranges::range_value_t<B>>);

template <class R>
consteval DataType element_type_of() {
  using T = std::ranges::range_value_t<R>;
  static_assert(Element<T>,
                "Capstan's elements are integers of 8, 32 and 64 bits, char, std::byte, float, "
                "double, the small floats of capstan/types.hpp and std::complex: convert others, "
                "or move them as bytes (std::as_bytes, std::as_writable_bytes)");
  return data_type_of<T>.value_or(DataType::u8);
}

/// One collective call on untyped memory. Bindings use it directly; all typed functions of
/// Communicator make one. Memory has the alignment of the element type.
///
/// Lengths in elements, for p ranks, of which this one is r; n is the same on all ranks. A buffer
/// that a rank does not use (-, or "root" elsewhere) is not looked at, nor is its count.
///
///   collective               input_count       output_count          counts, receive_counts
///   barrier                  -                 -
///   broadcast                n, root           n
///   reduce                   n                 n, root
///   all_reduce, scan         n                 n
///   exscan                   n                 n (rank 0's stays as it is)
///   all_gather               n                 p·n
///   reduce_scatter           p·n               n
///   gather                   n                 p·n, root
///   scatter                  p·n, root         n
///   all_to_all               p·n               p·n
///   all_gather_v             counts[r]         sum of counts         counts: the same on all ranks
///   reduce_scatter_v         sum of counts     counts[r]             the same
///   gather_v                 counts[r]         sum of counts, root   the same
///   scatter_v                sum, root         counts[r]             the same
///   all_to_all_v             sum of counts     sum, receive_counts   of this rank: counts[i] go to
///                                                                    rank i, receive_counts[i]
///                                                                    come from it
///
/// Blocks follow one another in the order of ranks. `reducer` counts where elements are combined
/// (reduce, all_reduce, reduce_scatter, reduce_scatter_v, scan, exscan), `root` where there is one;
/// other members are ignored.
///
/// A call is in place if the buffers share memory: with `input == output` where they are equally
/// long, otherwise with the shorter one being this rank's block of the longer one. The root of a
/// broadcast passes its data as both. A null pointer stands for no elements and never for "in
/// place": with any other count it is refused with InvalidArgument. An all_to_all_v is never in
/// place.
struct Request {
  Collective collective = Collective::barrier;
  DataType type = DataType::u8;
  ForeignType foreign{};  ///< what bytes of `type` u8 are to the program
  const void* input = nullptr;
  Elements input_count{};
  void* output = nullptr;
  Elements output_count{};
  Reducer reducer{};
  int root = 0;
  /// _v forms: the length of each rank's block, the same on all ranks; all_to_all_v: the elements
  /// that this rank sends to each.
  std::vector<Elements> counts{};
  /// all_to_all_v: the elements that this rank receives from each.
  std::vector<Elements> receive_counts{};
  /// A stream or queue of a device (cudaStream_t, hipStream_t), in whose order the call is to run:
  /// see Communicator::streams(). Null: none; the default stream of CUDA has the number 1 here
  /// (cudaStreamLegacy).
  void* stream = nullptr;

  bool operator==(const Request&) const = default;
};

/// Makes requests from ranges.
namespace request {

// Member by member: compilers clear an aggregate that is written as one with `rep stos`, which
// costs a small call up to 20 ns.

template <ElementRange In, MutableElementRange Out>
  requires SameElements<In, Out>
Request of(Collective collective, In&& input, Out&& output, Reducer reducer = {}, int root = 0) {
  Request request;
  request.collective = collective;
  request.type = element_type_of<In>();
  request.input = std::ranges::data(input);
  request.input_count = Elements{std::ranges::size(input)};
  request.output = std::ranges::data(output);
  request.output_count = Elements{std::ranges::size(output)};
  request.reducer = std::move(reducer);
  request.root = root;
  return request;
}

template <MutableElementRange Data>
Request in_place(Collective collective, Data&& data, Reducer reducer = {}, int root = 0) {
  Request request;
  request.collective = collective;
  request.type = element_type_of<Data>();
  request.input = request.output = std::ranges::data(data);
  request.input_count = request.output_count = Elements{std::ranges::size(data)};
  request.reducer = std::move(reducer);
  request.root = root;
  return request;
}

inline std::vector<Elements> counts(std::span<const std::size_t> lengths) {
  std::vector<Elements> counts;
  for (const std::size_t length : lengths) counts.emplace_back(length);
  return counts;
}

inline Request with_counts(Request request, std::span<const std::size_t> lengths) {
  request.counts = counts(lengths);
  return request;
}

}  // namespace request

}  // namespace CAPSTAN_EXPORT capstan
