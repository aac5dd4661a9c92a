// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "capstan/request.hpp"
#include "capstan/tensor_request.hpp"

namespace capstan {

/// The same shape in dense memory.
inline TensorView dense(const TensorView& like, void* data) {
  return {data, like.type, like.shape};
}

/// A tensor that a call uses: blocks along a dimension, one for each rank, or the whole as one.
/// Blocks travel one after another, each of them dense.
struct TensorSide {
  TensorView tensor;
  int dimension = 0;
  std::vector<std::int64_t> lengths{};  ///< of the blocks along the dimension; none: the whole

  Bytes bytes() const { return bytes_of(tensor.count(), size_of(tensor.type)); }
  /// The blocks lie one after another, each of them dense.
  bool travels_as_it_is() const;
  /// Copies between the tensor and dense memory of its length.
  void pack(std::byte* to, const CopyRun& copy_run) const;
  void unpack(const std::byte* from, const CopyRun& copy_run) const;

 private:
  template <class Visit>
  void each_block(std::byte* memory, Visit visit) const;
};

/// A request on one or two tensors that is valid on this rank.
struct TensorCall {
  std::optional<TensorSide> input{}, output{};  ///< those that this rank uses
  bool in_place = false;                        ///< there is one tensor, the input
  Request request{};                            ///< for tensors that travel as they are
  std::vector<std::int64_t> shape{};            ///< the shape that ranks agree on; see Call::tensor
};

/// Throws InvalidArgument, which names the rank, the call, the mistake and the remedy. Lengths of
/// counts and operations are checked later, as for any Request.
TensorCall check(const TensorRequest& request, int rank, int ranks);

/// The same for a tensor of a message or of a call of several.
void require_reachable(int rank, std::string_view call, const TensorView& tensor);
/// Refuses a reachable one whose elements have no memory of their own each, as it is written.
void require_writable(int rank, std::string_view call, const TensorView& tensor);

}  // namespace capstan
