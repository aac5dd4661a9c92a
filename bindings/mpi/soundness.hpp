// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bindings/mpi/transfer.hpp"

namespace capstan::mpi {

/// Whether MPI has nothing against the arguments, as far as they count on this rank. Others are
/// left to MPI, which says what is wrong and needs no other rank for that.
bool is_sound(const Arguments& arguments, Place place);

}  // namespace capstan::mpi
