// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "capstan/export.hpp"
#include "capstan/tensor_request.hpp"
#include "capstan/work.hpp"

namespace CAPSTAN_EXPORT capstan {

/// Makes requests from tensors.
namespace tensor_request {

inline TensorRequest in_place(Collective collective, const TensorView& data, Reducer reducer = {},
                              int root = 0) {
  return {.collective = collective, .inputs = {data}, .reducer = std::move(reducer), .root = root};
}

inline TensorRequest of(Collective collective, const TensorView& input, const TensorView& output,
                        Reducer reducer = {}, int root = 0) {
  return {.collective = collective,
          .inputs = {input},
          .outputs = {output},
          .reducer = std::move(reducer),
          .root = root};
}

inline TensorRequest along(int dimension, TensorRequest request) {
  request.dimension = dimension;
  return request;
}

inline TensorRequest with_lengths(std::span<const std::size_t> lengths, TensorRequest request) {
  request.lengths.assign(lengths.begin(), lengths.end());
  return request;
}

inline TensorRequest with_received(std::span<const std::size_t> lengths, TensorRequest request) {
  request.receive_lengths.assign(lengths.begin(), lengths.end());
  return request;
}

}  // namespace tensor_request

/// The collectives of a communicator on tensors; see TensorRequest for the shapes that each takes,
/// and Collectives for what they do. `Self` has run(const TensorRequest&) and start(const
/// TensorRequest&). A Tensor is a TensorView of itself.
///
/// A tensor whose elements do not lie one after the other, in the order in which they travel, is
/// packed and unpacked, on devices by a copy for each run of adjacent elements: make a tensor dense
/// that has many short runs. Ranks whose tensors differ in shape or type get a Mismatch. What does
/// not fit together on one rank gives it an InvalidArgument before anything is sent.
template <class Self>
class TensorCollectives {
 public:
  /// In place.
  void broadcast(const TensorView& data, int root) {
    self().run(tensor_request::in_place(Collective::broadcast, data, {}, root));
  }
  [[nodiscard]] Work start_broadcast(const TensorView& data, int root) {
    return self().start(tensor_request::in_place(Collective::broadcast, data, {}, root));
  }
  /// The input is the root's alone.
  void broadcast(const TensorView& input, const TensorView& output, int root) {
    self().run(tensor_request::of(Collective::broadcast, input, output, {}, root));
  }
  [[nodiscard]] Work start_broadcast(const TensorView& input, const TensorView& output, int root) {
    return self().start(tensor_request::of(Collective::broadcast, input, output, {}, root));
  }

  /// The output is the root's alone.
  void reduce(const TensorView& input, const TensorView& output, int root,
              const Reducer& reducer = {}) {
    self().run(tensor_request::of(Collective::reduce, input, output, reducer, root));
  }
  [[nodiscard]] Work start_reduce(const TensorView& input, const TensorView& output, int root,
                                  const Reducer& reducer = {}) {
    return self().start(tensor_request::of(Collective::reduce, input, output, reducer, root));
  }

  /// In place.
  void all_reduce(const TensorView& data, const Reducer& reducer = {}) {
    self().run(tensor_request::in_place(Collective::all_reduce, data, reducer));
  }
  [[nodiscard]] Work start_all_reduce(const TensorView& data, const Reducer& reducer = {}) {
    return self().start(tensor_request::in_place(Collective::all_reduce, data, reducer));
  }
  void all_reduce(const TensorView& input, const TensorView& output, const Reducer& reducer = {}) {
    self().run(tensor_request::of(Collective::all_reduce, input, output, reducer));
  }
  [[nodiscard]] Work start_all_reduce(const TensorView& input, const TensorView& output,
                                      const Reducer& reducer = {}) {
    return self().start(tensor_request::of(Collective::all_reduce, input, output, reducer));
  }

  void scan(const TensorView& data, const Reducer& reducer = {}) {
    self().run(tensor_request::in_place(Collective::scan, data, reducer));
  }
  [[nodiscard]] Work start_scan(const TensorView& data, const Reducer& reducer = {}) {
    return self().start(tensor_request::in_place(Collective::scan, data, reducer));
  }
  void scan(const TensorView& input, const TensorView& output, const Reducer& reducer = {}) {
    self().run(tensor_request::of(Collective::scan, input, output, reducer));
  }
  [[nodiscard]] Work start_scan(const TensorView& input, const TensorView& output,
                                const Reducer& reducer = {}) {
    return self().start(tensor_request::of(Collective::scan, input, output, reducer));
  }

  void exscan(const TensorView& data, const Reducer& reducer = {}) {
    self().run(tensor_request::in_place(Collective::exscan, data, reducer));
  }
  [[nodiscard]] Work start_exscan(const TensorView& data, const Reducer& reducer = {}) {
    return self().start(tensor_request::in_place(Collective::exscan, data, reducer));
  }
  void exscan(const TensorView& input, const TensorView& output, const Reducer& reducer = {}) {
    self().run(tensor_request::of(Collective::exscan, input, output, reducer));
  }
  [[nodiscard]] Work start_exscan(const TensorView& input, const TensorView& output,
                                  const Reducer& reducer = {}) {
    return self().start(tensor_request::of(Collective::exscan, input, output, reducer));
  }

  /// The output is p times as long along the dimension.
  void all_gather(const TensorView& input, const TensorView& output, int dimension = 0) {
    self().run(tensor_request::along(dimension,
                                     tensor_request::of(Collective::all_gather, input, output)));
  }
  [[nodiscard]] Work start_all_gather(const TensorView& input, const TensorView& output,
                                      int dimension = 0) {
    return self().start(tensor_request::along(
        dimension, tensor_request::of(Collective::all_gather, input, output)));
  }
  /// The lengths of all ranks' inputs along the dimension.
  void all_gather_v(const TensorView& input, const TensorView& output,
                    std::span<const std::size_t> lengths, int dimension = 0) {
    self().run(tensor_request::along(
        dimension, tensor_request::with_lengths(
                       lengths, tensor_request::of(Collective::all_gather_v, input, output))));
  }
  [[nodiscard]] Work start_all_gather_v(const TensorView& input, const TensorView& output,
                                        std::span<const std::size_t> lengths, int dimension = 0) {
    return self().start(tensor_request::along(
        dimension, tensor_request::with_lengths(
                       lengths, tensor_request::of(Collective::all_gather_v, input, output))));
  }

  /// The input is p times as long along the dimension; each rank gets its slice of the sum.
  void reduce_scatter(const TensorView& input, const TensorView& output, int dimension = 0,
                      const Reducer& reducer = {}) {
    self().run(tensor_request::along(
        dimension, tensor_request::of(Collective::reduce_scatter, input, output, reducer)));
  }
  [[nodiscard]] Work start_reduce_scatter(const TensorView& input, const TensorView& output,
                                          int dimension = 0, const Reducer& reducer = {}) {
    return self().start(tensor_request::along(
        dimension, tensor_request::of(Collective::reduce_scatter, input, output, reducer)));
  }
  /// The lengths of all ranks' outputs along the dimension.
  void reduce_scatter_v(const TensorView& input, const TensorView& output,
                        std::span<const std::size_t> lengths, int dimension = 0,
                        const Reducer& reducer = {}) {
    self().run(tensor_request::along(
        dimension,
        tensor_request::with_lengths(
            lengths, tensor_request::of(Collective::reduce_scatter_v, input, output, reducer))));
  }
  [[nodiscard]] Work start_reduce_scatter_v(const TensorView& input, const TensorView& output,
                                            std::span<const std::size_t> lengths, int dimension = 0,
                                            const Reducer& reducer = {}) {
    return self().start(tensor_request::along(
        dimension,
        tensor_request::with_lengths(
            lengths, tensor_request::of(Collective::reduce_scatter_v, input, output, reducer))));
  }

  /// The output is the root's alone, and p times as long along the dimension.
  void gather(const TensorView& input, const TensorView& output, int root, int dimension = 0) {
    self().run(tensor_request::along(
        dimension, tensor_request::of(Collective::gather, input, output, {}, root)));
  }
  [[nodiscard]] Work start_gather(const TensorView& input, const TensorView& output, int root,
                                  int dimension = 0) {
    return self().start(tensor_request::along(
        dimension, tensor_request::of(Collective::gather, input, output, {}, root)));
  }
  void gather_v(const TensorView& input, const TensorView& output,
                std::span<const std::size_t> lengths, int root, int dimension = 0) {
    self().run(tensor_request::along(
        dimension,
        tensor_request::with_lengths(
            lengths, tensor_request::of(Collective::gather_v, input, output, {}, root))));
  }
  [[nodiscard]] Work start_gather_v(const TensorView& input, const TensorView& output,
                                    std::span<const std::size_t> lengths, int root,
                                    int dimension = 0) {
    return self().start(tensor_request::along(
        dimension,
        tensor_request::with_lengths(
            lengths, tensor_request::of(Collective::gather_v, input, output, {}, root))));
  }

  /// The input is the root's alone, and p times as long along the dimension.
  void scatter(const TensorView& input, const TensorView& output, int root, int dimension = 0) {
    self().run(tensor_request::along(
        dimension, tensor_request::of(Collective::scatter, input, output, {}, root)));
  }
  [[nodiscard]] Work start_scatter(const TensorView& input, const TensorView& output, int root,
                                   int dimension = 0) {
    return self().start(tensor_request::along(
        dimension, tensor_request::of(Collective::scatter, input, output, {}, root)));
  }
  void scatter_v(const TensorView& input, const TensorView& output,
                 std::span<const std::size_t> lengths, int root, int dimension = 0) {
    self().run(tensor_request::along(
        dimension,
        tensor_request::with_lengths(
            lengths, tensor_request::of(Collective::scatter_v, input, output, {}, root))));
  }
  [[nodiscard]] Work start_scatter_v(const TensorView& input, const TensorView& output,
                                     std::span<const std::size_t> lengths, int root,
                                     int dimension = 0) {
    return self().start(tensor_request::along(
        dimension,
        tensor_request::with_lengths(
            lengths, tensor_request::of(Collective::scatter_v, input, output, {}, root))));
  }

  /// p blocks of one length along the dimension: block i goes to rank i.
  void all_to_all(const TensorView& input, const TensorView& output, int dimension = 0) {
    self().run(tensor_request::along(dimension,
                                     tensor_request::of(Collective::all_to_all, input, output)));
  }
  [[nodiscard]] Work start_all_to_all(const TensorView& input, const TensorView& output,
                                      int dimension = 0) {
    return self().start(tensor_request::along(
        dimension, tensor_request::of(Collective::all_to_all, input, output)));
  }
  /// In place.
  void all_to_all(const TensorView& data, int dimension = 0) {
    self().run(
        tensor_request::along(dimension, tensor_request::in_place(Collective::all_to_all, data)));
  }
  [[nodiscard]] Work start_all_to_all(const TensorView& data, int dimension = 0) {
    return self().start(
        tensor_request::along(dimension, tensor_request::in_place(Collective::all_to_all, data)));
  }
  /// The lengths along the dimension of what goes to each rank, and of what comes from it.
  void all_to_all_v(const TensorView& input, std::span<const std::size_t> send_lengths,
                    const TensorView& output, std::span<const std::size_t> receive_lengths,
                    int dimension = 0) {
    self().run(tensor_request::along(
        dimension,
        tensor_request::with_received(
            receive_lengths,
            tensor_request::with_lengths(
                send_lengths, tensor_request::of(Collective::all_to_all_v, input, output)))));
  }
  [[nodiscard]] Work start_all_to_all_v(const TensorView& input,
                                        std::span<const std::size_t> send_lengths,
                                        const TensorView& output,
                                        std::span<const std::size_t> receive_lengths,
                                        int dimension = 0) {
    return self().start(tensor_request::along(
        dimension,
        tensor_request::with_received(
            receive_lengths,
            tensor_request::with_lengths(
                send_lengths, tensor_request::of(Collective::all_to_all_v, input, output)))));
  }

 private:
  Self& self() { return static_cast<Self&>(*this); }
};

}  // namespace CAPSTAN_EXPORT capstan
