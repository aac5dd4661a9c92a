#pragma once

#include <concepts>
#include <ranges>
#include <span>
#include <type_traits>
#include <vector>

#include "capstan/collective.hpp"
#include "capstan/reducer.hpp"
#include "capstan/types.hpp"

namespace capstan {

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
/// A call is in place if the buffers share memory: with `input == output` where they are equally
/// long, otherwise with the shorter one being this rank's block of the longer one. A null pointer
/// stands for no elements and never for "in place": with any other count it is refused with
/// InvalidArgument. A buffer that this rank does not use (the output of a reduce, but at the root)
/// is not looked at.
struct Request {
  Collective collective = Collective::barrier;
  DataType type = DataType::u8;
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
  /// A stream or queue of a device (cudaStream_t, hipStream_t), in whose order the call is to run.
  /// Collectives run on the host today: anything but null is refused with InvalidArgument.
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

}  // namespace capstan
