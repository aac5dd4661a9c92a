// SPDX-License-Identifier: Apache-2.0
#include "bindings/mpi/narrow.hpp"

#include <mutex>
#include <unordered_map>

#include "bindings/mpi/types.hpp"

namespace capstan::mpi {

/// No more than MPI has had requests at the same time.
void keep_arrays(MPI_Request request, NarrowArrays arrays) {
  if (arrays.empty()) return;
  static auto& mutex = *new std::mutex;
  static auto& kept = *new std::unordered_map<std::uintptr_t, NarrowArrays>;
  const std::lock_guard lock{mutex};
  kept[number_of(request)] = std::move(arrays);
}

}  // namespace capstan::mpi
