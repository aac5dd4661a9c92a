// SPDX-License-Identifier: Apache-2.0

// Fills the slots of entries.cpp at the first call: finds the MPI that the process has, loads the
// implementation that was built for its mpi.h, and leads each function there, or to MPI's own. It
// needs the C library alone.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bindings/mpi/interface.hpp"
#include "bindings/mpi/libraries.hpp"

namespace {

struct Name {
  const char* text;  ///< PMPI_X
  void** mpi;
  void** pmpi;
};

}  // namespace

extern "C" {
extern const Name capstan_mpi_names[] __attribute__((visibility("hidden")));
extern const Name capstan_mpi_names_end[] __attribute__((visibility("hidden")));
__attribute__((visibility("hidden"), used)) void capstan_mpi_bind();
}

namespace {

using capstan::mpi::Library;

struct Found {
  char path[PATH_MAX];
  const Library* known;  ///< null: an MPI that is not
  ElfW(Addr) address;
};

/// "" where there is none, and for the kernel's own object, whose addresses are not relocated.
const char* soname_of(const dl_phdr_info& object) {
  if (!std::strchr(object.dlpi_name, '/')) return "";
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < object.dlpi_phnum; ++i)
    if (object.dlpi_phdr[i].p_type == PT_DYNAMIC)
      dynamic = reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
  const char* strings = nullptr;
  std::size_t offset = 0;
  for (; dynamic && dynamic->d_tag != DT_NULL; ++dynamic) {
    if (dynamic->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(dynamic->d_un.d_ptr);
    if (dynamic->d_tag == DT_SONAME) offset = dynamic->d_un.d_val;
  }
  return strings && offset != 0 ? strings + offset : "";
}

/// Ends the search with 1 at an MPI that is known.
int look_at(dl_phdr_info* object, std::size_t, void* data) {
  auto& found = *static_cast<Found*>(data);
  const char* const soname = soname_of(*object);
  const Library* known = nullptr;
  for (const Library& each : capstan::mpi::libraries)
    if (std::strcmp(soname, each.soname) == 0) known = &each;
  if (!known && (found.path[0] || std::strncmp(soname, "libmpi.so", 9) != 0)) return 0;
  std::snprintf(found.path, sizeof found.path, "%s", object->dlpi_name);
  found.known = known;
  found.address = object->dlpi_addr;
  return known ? 1 : 0;
}

constexpr std::size_t most_names = 256;
void* own[most_names];
capstan_mpi_library library = {nullptr, own};

void find_own(const Found& found) {
  library.handle = ::dlopen(found.path, RTLD_LAZY | RTLD_NOLOAD);
  if (!library.handle) return;
  for (const Name* name = capstan_mpi_names; name != capstan_mpi_names_end; ++name)
    own[name - capstan_mpi_names] = ::dlsym(library.handle, name->text);
}

/// The implementation lies beside the stub.
void serve(const Library& known, void** served) {
  Dl_info self;
  if (::dladdr(reinterpret_cast<void*>(&capstan_mpi_bind), &self) == 0) return;
  const char* const slash = std::strrchr(self.dli_fname, '/');
  const int folder = slash ? static_cast<int>(slash + 1 - self.dli_fname) : 0;
  char path[PATH_MAX];
  std::snprintf(path, sizeof path, "%.*s%s", folder, self.dli_fname, known.implementation);
  void* const implementation = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const auto function =
      implementation
          ? reinterpret_cast<capstan_mpi_serve_function>(::dlsym(implementation, CAPSTAN_MPI_SERVE))
          : nullptr;
  if (function)
    function(&library, served);
  else
    std::fprintf(
        stderr,
        "capstan: %s cannot be loaded (%s): this process keeps the collectives of its MPI\n", path,
        ::dlerror());
}

void absent() {
  std::fputs(
      "capstan: a function of MPI was called that the MPI of this process does not have, or the "
      "process has no MPI: link or load one (libmpi), or take libcapstan-mpi.so out of "
      "LD_PRELOAD\n",
      stderr);
  std::abort();
}

/// A tool that stands between the program and MPI keeps its place: MPI_X leads to it.
void* tool_of(const Name& name, const Found& found) {
  void* const next = ::dlsym(RTLD_NEXT, name.text + 1);
  Dl_info info;
  if (!next || ::dladdr(next, &info) == 0) return nullptr;
  return reinterpret_cast<ElfW(Addr)>(info.dli_fbase) == found.address ? nullptr : next;
}

void fill() {
  static Found found;
  static void* served[most_names];
  ::dl_iterate_phdr(&look_at, &found);
  if (found.path[0]) find_own(found);
  if (library.handle && found.known) serve(*found.known, served);
  for (const Name* name = capstan_mpi_names; name != capstan_mpi_names_end; ++name) {
    const auto i = name - capstan_mpi_names;
    void* function = served[i] ? served[i] : own[i];
    if (!function) function = reinterpret_cast<void*>(&absent);
    void* const tool = tool_of(*name, found);
    __atomic_store_n(name->pmpi, function, __ATOMIC_RELEASE);
    __atomic_store_n(name->mpi, tool ? tool : function, __ATOMIC_RELEASE);
  }
}

}  // namespace

void capstan_mpi_bind() {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  ::pthread_once(&once, &fill);
}
