// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <cstdio>

#include "bindings/mpi/mpi.hpp"

namespace capstan::mpi {
namespace {

capstan_mpi_library the_library;

template <class Function>
bool find(const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(the_library.handle, name));
  if (!function) std::fprintf(stderr, "capstan: this MPI has no %s\n", name);
  return function != nullptr;
}

}  // namespace

Calls calls;

/// A program that is linked with the library may hold the library's objects: the linker has moved
/// them there, and the library itself uses those.
void* symbol(const char* name) {
  void* const linked = ::dlsym(RTLD_DEFAULT, name);
  return linked ? linked : ::dlsym(the_library.handle, name);
}

void* own(Id id) {
  return the_library.own[static_cast<int>(id)];
}

bool look_up(const capstan_mpi_library& library) {
  the_library = library;
  bool all = true;
#define X(name) all = find("PMPI_" #name, calls.name) && all;
  CAPSTAN_MPI_CALLS(X)
#undef X
  return all;
}

}  // namespace capstan::mpi
