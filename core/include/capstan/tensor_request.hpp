#pragma once

#include <vector>

#include "capstan/collective.hpp"
#include "capstan/export.hpp"
#include "capstan/reducer.hpp"
#include "capstan/tensor.hpp"

namespace CAPSTAN_EXPORT capstan {

/// One collective call on tensors, for bindings; the functions of Communicator that take tensors or
/// many buffers make one. p is the number of ranks.
///
///   all_reduce       in place on `inputs`, which have one type; no outputs. Several tensors travel
///                    as one call, packed one after another: each rank passes as many elements in
///                    all.
///   broadcast        in place on one input, from rank `root`; no outputs
///   all_gather       one input and one output, which is p times as long along `dimension`, where
///                    the inputs of the ranks follow one another
///   reduce_scatter   one input and one output, of which the input is p times as long along
///                    `dimension`; each rank gets its slice of the combined inputs
///
/// Other collectives, and numbers of tensors other than these, are refused with InvalidArgument.
/// Tensors may have strides: those that do not lie as they travel are packed and unpacked. The
/// memory stays the caller's until the call has ended; the request itself may go at once.
struct TensorRequest {
  Collective collective = Collective::all_reduce;
  std::vector<TensorView> inputs{};
  std::vector<TensorView> outputs{};
  Reducer reducer{};  ///< all_reduce, reduce_scatter
  int root = 0;       ///< broadcast
  int dimension = 0;  ///< all_gather, reduce_scatter
};

}  // namespace capstan
