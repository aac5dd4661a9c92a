// SPDX-License-Identifier: Apache-2.0
#pragma once

// One source for PyTorch 1.13, where a backend is a ProcessGroup, and 2, where it is a Backend.

#include <torch/version.h>

#if TORCH_VERSION_MAJOR >= 2
#include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace capstan::pytorch {

#if TORCH_VERSION_MAJOR >= 2
using Base = c10d::Backend;
#else
using Base = c10d::ProcessGroup;
#endif

}  // namespace capstan::pytorch
