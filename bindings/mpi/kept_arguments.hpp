// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <list>
#include <vector>

#include "bindings/mpi/transfer.hpp"

namespace capstan::mpi {

/// The arguments of a persistent call, with copies of the arrays that count on this rank: programs
/// free theirs when the request has been made, as all MPIs have read them then.
class KeptArguments {
 public:
  KeptArguments(const Arguments& arguments, Place place);
  KeptArguments(const KeptArguments&) = delete;

  const Arguments& get() const { return arguments_; }

 private:
  void keep(Side& side, int ranks);
  Numbers copy(const Numbers& numbers, int ranks);

  Arguments arguments_;
  std::list<std::vector<long long>> numbers_;
  std::list<std::vector<MPI_Datatype>> types_;
};

}  // namespace capstan::mpi
