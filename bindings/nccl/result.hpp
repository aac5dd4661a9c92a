// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "bindings/nccl/nccl.h"

// An exported function: the strong name with p, and the weak one that a profiler may replace.
#define CAPSTAN_NCCL_EXPORT(name)                                                              \
  extern "C" __attribute__((weak, alias("pnccl" #name), visibility("default"))) decltype(nccl##name) \
      nccl##name

namespace capstan::nccl {

/// NCCL's result for an error, whose text ncclGetLastError then gives.
ncclResult_t result_of(const std::exception_ptr& error);
/// Says why, and returns ncclInvalidUsage.
ncclResult_t refused(const std::string& reason);
std::string last_error();

/// Runs a function of the interface: no exception leaves it.
template <class F>
ncclResult_t guarded(F function) {
  try {
    return function();
  } catch (...) {
    return result_of(std::current_exception());
  }
}

}  // namespace capstan::nccl
