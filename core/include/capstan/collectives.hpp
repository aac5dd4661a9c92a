// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "capstan/export.hpp"
#include "capstan/request.hpp"
#include "capstan/work.hpp"

namespace CAPSTAN_EXPORT capstan {

/// The collectives of a communicator, each in a blocking form and in one that starts it and returns
/// a Work. `Self` has run(const Request&) and start(const Request&). What is started uses its
/// ranges until it ends: temporary vectors and arrays are refused at compile time.
///
/// p is the number of ranks. Arguments are contiguous ranges of elements (spans, vectors, arrays)
/// of one type. Input and output are disjoint, or the collective is asked for in place: with one
/// range where both are equally long, otherwise with a rank's own block being part of the larger
/// range (all_gather, gather, reduce_scatter, scatter), as in MPI and NCCL. An empty range has no
/// elements; it never means in place. Lengths that do not fit together, a null pointer that is to
/// hold elements, a root out of range, a type that the operation is not defined for, and ranges
/// that overlap in another way throw InvalidArgument before anything is sent. If ranks make
/// different calls, each gets a Mismatch that names the ranks and their calls.
///
/// Results are the same, bit by bit, on all ranks that get them, in every call and in every run:
/// for the same inputs, ranks, hosts, settings and kinds of buffers (allocated ones, or others).
/// They may differ where one of these does, as sums of floating-point numbers depend on their
/// order.
///
/// As in MPI, only the barrier is sure to wait for all ranks; any other collective may. Data that a
/// rank sends have arrived, or will arrive, when its call returns. A broadcast's root or a reduce's
/// sender may run ahead of the others by some calls.
template <class Self>
class Collectives {
 public:
  /// Returns when all ranks have called it.
  void barrier() {
    const Request request;
    self().run(request);
  }
  [[nodiscard]] Work start_barrier() { return self().start(Request{}); }

  /// Every rank's data become the root's.
  template <MutableElementRange Data>
  void broadcast(Data&& data, int root) {
    self().run(request::in_place(Collective::broadcast, data, {}, root));
  }
  template <LastingMutableRange Data>
  [[nodiscard]] Work start_broadcast(Data&& data, int root) {
    return self().start(request::in_place(Collective::broadcast, data, {}, root));
  }
  /// Every rank's output becomes the root's input; at other ranks the input may be empty.
  template <ElementRange In, MutableElementRange Out>
  void broadcast(In&& input, Out&& output, int root) {
    self().run(request::of(Collective::broadcast, input, output, {}, root));
  }
  template <LastingRange In, LastingMutableRange Out>
  [[nodiscard]] Work start_broadcast(In&& input, Out&& output, int root) {
    return self().start(request::of(Collective::broadcast, input, output, {}, root));
  }

  /// At the root output[i] = all ranks' input[i] combined; at other ranks the output may be empty.
  template <ElementRange In, MutableElementRange Out>
  void reduce(In&& input, Out&& output, int root, Reducer reducer = {}) {
    self().run(request::of(Collective::reduce, input, output, std::move(reducer), root));
  }
  template <LastingRange In, LastingMutableRange Out>
  [[nodiscard]] Work start_reduce(In&& input, Out&& output, int root, Reducer reducer = {}) {
    return self().start(request::of(Collective::reduce, input, output, std::move(reducer), root));
  }

  /// output[i] = all ranks' input[i] combined, on every rank.
  template <ElementRange In, MutableElementRange Out>
  void all_reduce(In&& input, Out&& output, Reducer reducer = {}) {
    self().run(request::of(Collective::all_reduce, input, output, std::move(reducer)));
  }
  template <LastingRange In, LastingMutableRange Out>
  [[nodiscard]] Work start_all_reduce(In&& input, Out&& output, Reducer reducer = {}) {
    return self().start(request::of(Collective::all_reduce, input, output, std::move(reducer)));
  }
  template <MutableElementRange Data>
  void all_reduce(Data&& data, Reducer reducer = {}) {
    self().run(request::in_place(Collective::all_reduce, data, std::move(reducer)));
  }
  template <LastingMutableRange Data>
  [[nodiscard]] Work start_all_reduce(Data&& data, Reducer reducer = {}) {
    return self().start(request::in_place(Collective::all_reduce, data, std::move(reducer)));
  }

  /// The output is p blocks, block r being rank r's input.
  template <ElementRange In, MutableElementRange Out>
  void all_gather(In&& input, Out&& output) {
    self().run(request::of(Collective::all_gather, input, output));
  }
  template <LastingRange In, LastingMutableRange Out>
  [[nodiscard]] Work start_all_gather(In&& input, Out&& output) {
    return self().start(request::of(Collective::all_gather, input, output));
  }
  /// The same with blocks of these lengths, which all ranks pass alike.
  template <ElementRange In, MutableElementRange Out>
  void all_gather_v(In&& input, Out&& output, std::span<const std::size_t> lengths) {
    self().run(request::with_counts(request::of(Collective::all_gather_v, input, output), lengths));
  }
  template <LastingRange In, LastingMutableRange Out>
  [[nodiscard]] Work start_all_gather_v(In&& input, Out&& output,
                                        std::span<const std::size_t> lengths) {
    return self().start(
        request::with_counts(request::of(Collective::all_gather_v, input, output), lengths));
  }

  /// The input is p blocks; the output is all ranks' block r combined, r being this rank.
  template <ElementRange In, MutableElementRange Out>
  void reduce_scatter(In&& input, Out&& output, Reducer reducer = {}) {
    self().run(request::of(Collective::reduce_scatter, input, output, std::move(reducer)));
  }
  template <LastingRange In, LastingMutableRange Out>
  [[nodiscard]] Work start_reduce_scatter(In&& input, Out&& output, Reducer reducer = {}) {
    return self().start(request::of(Collective::reduce_scatter, input, output, std::move(reducer)));
  }
  /// The same with blocks of these lengths, which all ranks pass alike.
  template <ElementRange In, MutableElementRange Out>
  void reduce_scatter_v(In&& input, Out&& output, std::span<const std::size_t> lengths,
                        Reducer reducer = {}) {
    self().run(request::with_counts(
        request::of(Collective::reduce_scatter_v, input, output, std::move(reducer)), lengths));
  }
  template <LastingRange In, LastingMutableRange Out>
  [[nodiscard]] Work start_reduce_scatter_v(In&& input, Out&& output,
                                            std::span<const std::size_t> lengths,
                                            Reducer reducer = {}) {
    return self().start(request::with_counts(
        request::of(Collective::reduce_scatter_v, input, output, std::move(reducer)), lengths));
  }

  /// At the root the output is p blocks, block r being rank r's input; elsewhere it may be empty.
  template <ElementRange In, MutableElementRange Out>
  void gather(In&& input, Out&& output, int root) {
    self().run(request::of(Collective::gather, input, output, {}, root));
  }
  template <LastingRange In, LastingMutableRange Out>
  [[nodiscard]] Work start_gather(In&& input, Out&& output, int root) {
    return self().start(request::of(Collective::gather, input, output, {}, root));
  }
  /// The same with blocks of these lengths, which all ranks pass alike.
  template <ElementRange In, MutableElementRange Out>
  void gather_v(In&& input, Out&& output, std::span<const std::size_t> lengths, int root) {
    self().run(
        request::with_counts(request::of(Collective::gather_v, input, output, {}, root), lengths));
  }
  template <LastingRange In, LastingMutableRange Out>
  [[nodiscard]] Work start_gather_v(In&& input, Out&& output, std::span<const std::size_t> lengths,
                                    int root) {
    return self().start(
        request::with_counts(request::of(Collective::gather_v, input, output, {}, root), lengths));
  }

  /// Rank r's output is block r of the root's input, of p blocks; elsewhere the input may be empty.
  template <ElementRange In, MutableElementRange Out>
  void scatter(In&& input, Out&& output, int root) {
    self().run(request::of(Collective::scatter, input, output, {}, root));
  }
  template <LastingRange In, LastingMutableRange Out>
  [[nodiscard]] Work start_scatter(In&& input, Out&& output, int root) {
    return self().start(request::of(Collective::scatter, input, output, {}, root));
  }
  /// The same with blocks of these lengths, which all ranks pass alike.
  template <ElementRange In, MutableElementRange Out>
  void scatter_v(In&& input, Out&& output, std::span<const std::size_t> lengths, int root) {
    self().run(
        request::with_counts(request::of(Collective::scatter_v, input, output, {}, root), lengths));
  }
  template <LastingRange In, LastingMutableRange Out>
  [[nodiscard]] Work start_scatter_v(In&& input, Out&& output, std::span<const std::size_t> lengths,
                                     int root) {
    return self().start(
        request::with_counts(request::of(Collective::scatter_v, input, output, {}, root), lengths));
  }

  /// Input and output are p blocks each; block i of the output is block r of rank i's input, r
  /// being this rank.
  template <ElementRange In, MutableElementRange Out>
  void all_to_all(In&& input, Out&& output) {
    self().run(request::of(Collective::all_to_all, input, output));
  }
  template <LastingRange In, LastingMutableRange Out>
  [[nodiscard]] Work start_all_to_all(In&& input, Out&& output) {
    return self().start(request::of(Collective::all_to_all, input, output));
  }
  template <MutableElementRange Data>
  void all_to_all(Data&& data) {
    self().run(request::in_place(Collective::all_to_all, data));
  }
  template <LastingMutableRange Data>
  [[nodiscard]] Work start_all_to_all(Data&& data) {
    return self().start(request::in_place(Collective::all_to_all, data));
  }
  /// The same with blocks of these lengths: what this rank sends to each and receives from each.
  /// Ranks exchange these lengths first, so that lengths that do not fit together are a Mismatch.
  template <ElementRange In, MutableElementRange Out>
  void all_to_all_v(In&& input, std::span<const std::size_t> send_lengths, Out&& output,
                    std::span<const std::size_t> receive_lengths) {
    self().run(all_to_all_v_request(input, send_lengths, output, receive_lengths));
  }
  template <LastingRange In, LastingMutableRange Out>
  [[nodiscard]] Work start_all_to_all_v(In&& input, std::span<const std::size_t> send_lengths,
                                        Out&& output,
                                        std::span<const std::size_t> receive_lengths) {
    return self().start(all_to_all_v_request(input, send_lengths, output, receive_lengths));
  }

  /// output[i] = input[i] of ranks 0 .. r combined, r being this rank.
  template <ElementRange In, MutableElementRange Out>
  void scan(In&& input, Out&& output, Reducer reducer = {}) {
    self().run(request::of(Collective::scan, input, output, std::move(reducer)));
  }
  template <LastingRange In, LastingMutableRange Out>
  [[nodiscard]] Work start_scan(In&& input, Out&& output, Reducer reducer = {}) {
    return self().start(request::of(Collective::scan, input, output, std::move(reducer)));
  }
  template <MutableElementRange Data>
  void scan(Data&& data, Reducer reducer = {}) {
    self().run(request::in_place(Collective::scan, data, std::move(reducer)));
  }
  template <LastingMutableRange Data>
  [[nodiscard]] Work start_scan(Data&& data, Reducer reducer = {}) {
    return self().start(request::in_place(Collective::scan, data, std::move(reducer)));
  }

  /// output[i] = input[i] of ranks 0 .. r-1 combined; rank 0's output stays as it is.
  template <ElementRange In, MutableElementRange Out>
  void exscan(In&& input, Out&& output, Reducer reducer = {}) {
    self().run(request::of(Collective::exscan, input, output, std::move(reducer)));
  }
  template <LastingRange In, LastingMutableRange Out>
  [[nodiscard]] Work start_exscan(In&& input, Out&& output, Reducer reducer = {}) {
    return self().start(request::of(Collective::exscan, input, output, std::move(reducer)));
  }
  template <MutableElementRange Data>
  void exscan(Data&& data, Reducer reducer = {}) {
    self().run(request::in_place(Collective::exscan, data, std::move(reducer)));
  }
  template <LastingMutableRange Data>
  [[nodiscard]] Work start_exscan(Data&& data, Reducer reducer = {}) {
    return self().start(request::in_place(Collective::exscan, data, std::move(reducer)));
  }

 private:
  Self& self() { return static_cast<Self&>(*this); }

  template <class In, class Out>
  static Request all_to_all_v_request(In&& input, std::span<const std::size_t> send_lengths,
                                      Out&& output, std::span<const std::size_t> receive_lengths) {
    Request r =
        request::with_counts(request::of(Collective::all_to_all_v, input, output), send_lengths);
    r.receive_counts = request::counts(receive_lengths);
    return r;
  }
};

}  // namespace capstan
