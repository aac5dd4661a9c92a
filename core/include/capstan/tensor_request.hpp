// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "capstan/collective.hpp"
#include "capstan/export.hpp"
#include "capstan/foreign_type.hpp"
#include "capstan/reducer.hpp"
#include "capstan/tensor.hpp"

namespace CAPSTAN_EXPORT capstan {

/// One collective call on tensors, for bindings; the functions of TensorCollectives make one. p is
/// the number of ranks, r this one. All collectives but the barrier have one, with one input and
/// one output:
///
///   broadcast, reduce, all_reduce, scan, exscan   of one shape
///   all_gather, gather                 the output is p times as long along `dimension`, where the
///                                      inputs of the ranks follow one another
///   reduce_scatter, scatter            the input is p times as long along `dimension`
///   all_to_all                         of one shape: p blocks of one length along `dimension`
///   all_gather_v, gather_v             the input has lengths[r] along `dimension`, the output the
///                                      sum of `lengths`, which are the same on all ranks
///   reduce_scatter_v, scatter_v        the same the other way round
///   all_to_all_v                       `lengths` of what goes to each rank, `receive_lengths` of
///                                      what comes from it
///
/// Without an output, broadcast, all_reduce, all_to_all, scan and exscan are in place. An
/// all_reduce in place takes any number of tensors of one type, which travel as one call, packed
/// one after another: each rank passes as many elements in all.
///
/// Tensors that a rank does not use (the input of a broadcast or scatter and the output of a reduce
/// or gather, but at the root) are not looked at. Input and output have one type. Numbers of
/// tensors other than these, null memory of tensors that have elements, and shapes that do not fit
/// are refused with InvalidArgument before anything is sent. Tensors may have strides: those that
/// do not lie as they travel are packed and unpacked; what is written has its own memory for each
/// element. The memory stays the caller's until the call
/// has ended; the request itself may go at once.
struct TensorRequest {
  Collective collective = Collective::all_reduce;
  std::vector<TensorView> inputs{};
  std::vector<TensorView> outputs{};
  ForeignType foreign{};                        ///< see Request
  Reducer reducer{};                            ///< where elements are combined
  int root = 0;                                 ///< where there is one
  int dimension = 0;                            ///< where there are blocks
  bool any_shape = false;                       ///< ranks need not agree on more than the elements
  std::vector<std::int64_t> lengths{};          ///< _v forms, along the dimension
  std::vector<std::int64_t> receive_lengths{};  ///< all_to_all_v
};

}  // namespace CAPSTAN_EXPORT capstan
