// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <climits>
#include <list>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/mpi/mpi.hpp"

namespace capstan::mpi {

using NarrowArrays = std::list<std::vector<int>>;

/// Keeps arrays until another call has the same request: MPI gives a handle to one call at a time.
void keep_arrays(MPI_Request request, NarrowArrays arrays);

/// A call with wide counts for an MPI that has narrow ones alone: a program may find the wide form
/// here and take it for MPI's. Arrays are copied.
class Narrow {
 public:
  explicit Narrow(int ranks) : ranks_(ranks) {}
  Narrow(const Narrow&) = delete;

  /// MPI reads the arrays until the call of this request has ended, or the request is freed.
  void keep_for(MPI_Request request) { keep_arrays(request, std::move(arrays_)); }

  /// False: a number does not fit.
  bool fits() const { return fits_; }

  template <class Other>
  Other operator()(Other other) {
    return other;
  }
  int operator()(MPI_Count count) {
    fits_ = fits_ && count >= INT_MIN && count <= INT_MAX;
    return static_cast<int>(count);
  }
  template <class Wide>
    requires(std::is_integral_v<Wide> && sizeof(Wide) > sizeof(int))
  const int* operator()(const Wide* numbers) {
    if (!numbers) return nullptr;
    arrays_.emplace_back();
    for (int rank = 0; rank < ranks_; ++rank)
      arrays_.back().push_back((*this)(static_cast<MPI_Count>(numbers[rank])));
    return arrays_.back().data();
  }

 private:
  const int ranks_;
  bool fits_ = true;
  NarrowArrays arrays_;
};

/// The type that a parameter's becomes.
template <class Parameter>
using Narrowed = decltype(std::declval<Narrow&>()(std::declval<Parameter>()));

}  // namespace capstan::mpi
