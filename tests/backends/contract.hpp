// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "capstan/backends/backend.hpp"

namespace capstan {

/// Checks the promises of every backend from inside each of its ranks: all ranks call this at the
/// same time. Failures are gtest's. Leaves the backend open.
void check_contract(Backend& world);

/// The backend's own kind of memory around a host tensor: device memory of the stand-ins is the
/// host's.
inline TensorView view_for(const Backend& world, Tensor& tensor) {
  TensorView view = tensor.view();
  view.device = world.device();
  return view;
}

}  // namespace capstan
