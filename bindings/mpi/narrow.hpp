// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <climits>
#include <list>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/mpi/mpi.hpp"

namespace capstan::mpi {

/// A call with wide counts for an MPI that has narrow ones alone: a program may find the wide form
/// here and take it for MPI's. Arrays are copied; those of a call in the background are never
/// freed.
class Narrow {
 public:
  Narrow(int ranks, bool in_background) : ranks_(ranks), in_background_(in_background) {}
  ~Narrow() {
    if (in_background_ && !arrays_.empty())
      new std::list<std::vector<int>>{std::move(arrays_)};  // for as long as MPI needs
  }
  Narrow(const Narrow&) = delete;

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
  const bool in_background_;
  bool fits_ = true;
  std::list<std::vector<int>> arrays_;
};

/// The type that a parameter's becomes.
template <class Parameter>
using Narrowed = decltype(std::declval<Narrow&>()(std::declval<Parameter>()));

}  // namespace capstan::mpi
