// SPDX-License-Identifier: Apache-2.0
#pragma once

// mpi.h, whose functions and objects are looked up in the MPI that the process has: an
// implementation is linked with none, and never meets the stub's functions.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#ifdef CAPSTAN_MPI_ABI
#include <mpi_abi.h>
#else
#include <mpi.h>
#endif

#include "bindings/mpi/interface.hpp"

namespace capstan::mpi {

/// An object of the library of MPI; null if it has none of this name.
void* symbol(const char* name);

/// The functions of names.hpp, as indices.
enum class Id : int {
#define NAME(name) name,
#include "bindings/mpi/each_name.hpp"
  count
};

/// The functions of MPI that the door calls and does not serve itself.
#define CAPSTAN_MPI_CALLS(X)    \
  X(Add_error_code)             \
  X(Cancel)                     \
  X(Comm_call_errhandler)       \
  X(Comm_create_keyval)         \
  X(Comm_dup)                   \
  X(Comm_free)                  \
  X(Comm_get_attr)              \
  X(Comm_get_errhandler)        \
  X(Errhandler_free)            \
  X(Comm_group)                 \
  X(Comm_rank)                  \
  X(Comm_set_attr)              \
  X(Comm_set_errhandler)        \
  X(Comm_size)                  \
  X(Comm_test_inter)            \
  X(Finalized)                  \
  X(Get_library_version)        \
  X(Grequest_complete)          \
  X(Grequest_start)             \
  X(Group_free)                 \
  X(Group_translate_ranks)      \
  X(Initialized)                \
  X(Irecv)                      \
  X(Op_commutative)             \
  X(Pack)                       \
  X(Recv_init)                  \
  X(Reduce_local)               \
  X(Send)                       \
  X(Status_set_cancelled)       \
  X(Status_set_elements)        \
  X(Type_commit)                \
  X(Type_create_hindexed_block) \
  X(Type_get_contents)          \
  X(Type_get_envelope)          \
  X(Type_get_extent)            \
  X(Type_get_true_extent)       \
  X(Type_size_x)                \
  X(Unpack)

struct Calls {
#define X(name) decltype(&PMPI_##name) name;
  CAPSTAN_MPI_CALLS(X)
#undef X
};

/// The calls above.
extern Calls calls;

/// MPI's own function.
void* own(Id id);
template <class Function>
Function* own_as(Id id) {
  return reinterpret_cast<Function*>(own(id));
}

/// Looks all up. False if the library lacks one of the calls.
bool look_up(const capstan_mpi_library& library);

/// The text of an error of MPI.
struct Failed {
  int code;
};
/// Throws Failed.
inline void require(int code) {
  if (code != MPI_SUCCESS) throw Failed{code};
}

}  // namespace capstan::mpi

#ifdef OPEN_MPI
#undef OMPI_PREDEFINED_GLOBAL
// Each place looks its object up once: MPI_COMM_NULL and its like stand in the way of every call.
#define OMPI_PREDEFINED_GLOBAL(type, global)                    \
  static_cast<type>([] {                                        \
    static void* const found = ::capstan::mpi::symbol(#global); \
    return found;                                               \
  }())
#endif
