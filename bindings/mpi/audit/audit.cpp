// SPDX-License-Identifier: Apache-2.0

// An audit library of the dynamic loader (LD_AUDIT, see rtld-audit(7)), for programs that look the
// functions of MPI up by dlsym() in its library, as Julia does: they would not meet
// libcapstan-mpi.so, which is in LD_PRELOAD as always. It lives in a world of its own beside the
// program and uses nothing but the C library.

#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <cstring>

#include "bindings/mpi/libraries.hpp"

namespace {

/// Objects, as cookies. Capstan's own are neither.
enum : std::uintptr_t { neither, program, mpi };

constexpr char door_name[] = "libcapstan-mpi.so";
const link_map* door = nullptr;  // in the program's name space

const char* base_name(const char* path) {
  const char* const slash = std::strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/// The loader has not added an object's address to its entries yet: the file's name has to do.
bool is_library_of_mpi(const char* file) {
  for (const capstan::mpi::Library& each : capstan::mpi::libraries) {
    const char* const version = std::strstr(each.soname, ".so");
    const auto length = static_cast<std::size_t>(version - each.soname) + 3;
    if (std::strncmp(file, each.soname, length) == 0) return true;
  }
  return false;
}

/// The door's function of this name.
void* in_door(const char* name) {
  static void* const handle =
      ::dlmopen(LM_ID_BASE, door->l_name, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
  return handle ? ::dlsym(handle, name) : nullptr;
}

}  // namespace

#define CAPSTAN_AUDIT extern "C" __attribute__((visibility("default")))

CAPSTAN_AUDIT unsigned la_version(unsigned version) {
  return version;
}

/// The flags choose the lookups that la_symbind64 is told of, those that match on either side.
CAPSTAN_AUDIT unsigned la_objopen(link_map* object, Lmid_t world, std::uintptr_t* cookie) {
  *cookie = neither;
  if (world != LM_ID_BASE) return 0;
  const char* const file = base_name(object->l_name);
  if (std::strcmp(file, door_name) == 0) door = object;
  if (std::strncmp(file, "libcapstan", 10) == 0) return 0;
  *cookie = is_library_of_mpi(file) ? mpi : program;
  return *cookie == mpi ? LA_FLG_BINDTO : LA_FLG_BINDFROM;
}

CAPSTAN_AUDIT std::uintptr_t la_symbind64(Elf64_Sym* symbol, unsigned, std::uintptr_t* from,
                                          std::uintptr_t* to, unsigned* flags, const char* name) {
  void* found = nullptr;
  if (door && (*flags & LA_SYMB_DLSYM) != 0 && *from == program && *to == mpi)
    found = in_door(name);
  return found ? reinterpret_cast<std::uintptr_t>(found) : symbol->st_value;
}
