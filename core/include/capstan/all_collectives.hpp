// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "capstan/collectives.hpp"
#include "capstan/export.hpp"
#include "capstan/tensor_collectives.hpp"

namespace CAPSTAN_EXPORT capstan {

/// The collectives of ranges and those of tensors, under the same names. `Self` runs requests of
/// both kinds.
template <class Self>
class AllCollectives : public Collectives<Self>, public TensorCollectives<Self> {
 public:
  using Collectives<Self>::all_gather;
  using Collectives<Self>::all_gather_v;
  using Collectives<Self>::all_reduce;
  using Collectives<Self>::all_to_all;
  using Collectives<Self>::all_to_all_v;
  using Collectives<Self>::broadcast;
  using Collectives<Self>::exscan;
  using Collectives<Self>::gather;
  using Collectives<Self>::gather_v;
  using Collectives<Self>::reduce;
  using Collectives<Self>::reduce_scatter;
  using Collectives<Self>::reduce_scatter_v;
  using Collectives<Self>::scan;
  using Collectives<Self>::scatter;
  using Collectives<Self>::scatter_v;
  using Collectives<Self>::start_all_gather;
  using Collectives<Self>::start_all_gather_v;
  using Collectives<Self>::start_all_reduce;
  using Collectives<Self>::start_all_to_all;
  using Collectives<Self>::start_all_to_all_v;
  using Collectives<Self>::start_broadcast;
  using Collectives<Self>::start_exscan;
  using Collectives<Self>::start_gather;
  using Collectives<Self>::start_gather_v;
  using Collectives<Self>::start_reduce;
  using Collectives<Self>::start_reduce_scatter;
  using Collectives<Self>::start_reduce_scatter_v;
  using Collectives<Self>::start_scan;
  using Collectives<Self>::start_scatter;
  using Collectives<Self>::start_scatter_v;
  using TensorCollectives<Self>::all_gather;
  using TensorCollectives<Self>::all_gather_v;
  using TensorCollectives<Self>::all_reduce;
  using TensorCollectives<Self>::all_to_all;
  using TensorCollectives<Self>::all_to_all_v;
  using TensorCollectives<Self>::broadcast;
  using TensorCollectives<Self>::exscan;
  using TensorCollectives<Self>::gather;
  using TensorCollectives<Self>::gather_v;
  using TensorCollectives<Self>::reduce;
  using TensorCollectives<Self>::reduce_scatter;
  using TensorCollectives<Self>::reduce_scatter_v;
  using TensorCollectives<Self>::scan;
  using TensorCollectives<Self>::scatter;
  using TensorCollectives<Self>::scatter_v;
  using TensorCollectives<Self>::start_all_gather;
  using TensorCollectives<Self>::start_all_gather_v;
  using TensorCollectives<Self>::start_all_reduce;
  using TensorCollectives<Self>::start_all_to_all;
  using TensorCollectives<Self>::start_all_to_all_v;
  using TensorCollectives<Self>::start_broadcast;
  using TensorCollectives<Self>::start_exscan;
  using TensorCollectives<Self>::start_gather;
  using TensorCollectives<Self>::start_gather_v;
  using TensorCollectives<Self>::start_reduce;
  using TensorCollectives<Self>::start_reduce_scatter;
  using TensorCollectives<Self>::start_reduce_scatter_v;
  using TensorCollectives<Self>::start_scan;
  using TensorCollectives<Self>::start_scatter;
  using TensorCollectives<Self>::start_scatter_v;
};

}  // namespace CAPSTAN_EXPORT capstan
