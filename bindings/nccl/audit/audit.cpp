// SPDX-License-Identifier: Apache-2.0

// An audit library of the dynamic loader (LD_AUDIT, see rtld-audit(7)): a program that asks for
// libnccl.so.2 or librccl.so.1 gets Capstan's, which lies beside this library, whatever folders the
// program names. Where CAPSTAN_CUDA_DEVICES is set, libcudart.so.12 and .13 are the stand-in's,
// too. Programs that it starts inherit nothing: the library takes itself out of LD_AUDIT. It lives
// in a world of its own beside the program and uses nothing but the C library.

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

char own_path[PATH_MAX];     // of this library
char replacement[PATH_MAX];  // what the loader is told last

constexpr char variable[] = "LD_AUDIT=";

/// Whether an entry of LD_AUDIT, up to its end, is this library.
bool is_own(const char* entry, std::size_t length) {
  char name[PATH_MAX];
  if (length >= sizeof name) return false;
  std::memcpy(name, entry, length);
  name[length] = '\0';
  char resolved[PATH_MAX];
  return ::realpath(name, resolved) && std::strcmp(resolved, own_path) == 0;
}

/// Drops this library from the list, in place: the environment is the program's own.
void drop_own(char* list) {
  char* to = list;
  for (const char* from = list; *from != '\0';) {
    const std::size_t length = std::strcspn(from, ":");
    const bool more = from[length] == ':';
    if (!is_own(from, length)) {
      if (to != list) *to++ = ':';
      std::memmove(to, from, length);
      to += length;
    }
    from += length + (more ? 1 : 0);
  }
  *to = '\0';
}

void leave_the_environment() {
  for (char** entry = environ; *entry; ++entry) {
    if (std::strncmp(*entry, variable, sizeof variable - 1) != 0) continue;
    drop_own(*entry + sizeof variable - 1);
    if ((*entry)[sizeof variable - 1] != '\0') return;
    for (char** next = entry; *next; ++next) next[0] = next[1];
    return;
  }
}

const char* base_name(const char* path) {
  const char* const slash = std::strrchr(path, '/');
  return slash ? slash + 1 : path;
}

bool is_replaced(const char* name) {
  if (std::strcmp(name, "libnccl.so.2") == 0 || std::strcmp(name, "librccl.so.1") == 0) return true;
  return std::getenv("CAPSTAN_CUDA_DEVICES") &&
         (std::strcmp(name, "libcudart.so.12") == 0 || std::strcmp(name, "libcudart.so.13") == 0);
}

}  // namespace

#define CAPSTAN_AUDIT extern "C" __attribute__((visibility("default")))

CAPSTAN_AUDIT unsigned la_version(unsigned version) {
  Dl_info info;
  if (::dladdr(reinterpret_cast<void*>(&la_version), &info) == 0 ||
      !::realpath(info.dli_fname, own_path))
    return version;
  leave_the_environment();
  return version;
}

CAPSTAN_AUDIT char* la_objsearch(const char* name, std::uintptr_t*, unsigned flag) {
  char* const given = const_cast<char*>(name);
  const char* const file = base_name(name);
  if (flag != LA_SER_ORIG || own_path[0] == '\0' || !is_replaced(file)) return given;
  const auto folder = static_cast<int>(base_name(own_path) - own_path);
  const int length =
      std::snprintf(replacement, sizeof replacement, "%.*s%s", folder, own_path, file);
  const bool fits = length > 0 && static_cast<std::size_t>(length) < sizeof replacement;
  return fits && ::access(replacement, R_OK) == 0 ? replacement : given;
}
