// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/launchers/mpi_library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <string>
#include <string_view>
#include <vector>

namespace capstan {
namespace {

/// Functions of MPI that may be called at any time; alike in all of its libraries.
using Question = int (*)(int*);

struct Questions {
  Question initialised = nullptr;
  Question finalised = nullptr;
};

/// Files of this process that are named like a library of MPI (libmpi.so.40, libmpich.so.12).
std::vector<std::string> candidates() {
  std::vector<std::string> paths;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        const std::string_view path = info->dlpi_name;
        if (path.substr(path.rfind('/') + 1).starts_with("libmpi"))
          static_cast<std::vector<std::string>*>(data)->emplace_back(path);
        return 0;
      },
      &paths);
  return paths;
}

Questions find_in(void* library) {
  return {reinterpret_cast<Question>(::dlsym(library, "MPI_Initialized")),
          reinterpret_cast<Question>(::dlsym(library, "MPI_Finalized"))};
}

/// Finds the library even if it is not among the program's own libraries, as under Python.
Questions find() {
  if (const auto found = find_in(RTLD_DEFAULT); found.initialised) return found;
  for (const std::string& path : candidates()) {
    void* const library = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (!library) continue;
    const auto found = find_in(library);
    ::dlclose(library);  // it was loaded before, and stays so
    if (found.initialised) return found;
  }
  return {};
}

bool answer(Question question) {
  int value = 0;
  return question && question(&value) == 0 && value != 0;
}

}  // namespace

MpiLibrary mpi_library() {
  const Questions questions = find();
  if (!questions.initialised) return MpiLibrary::absent;
  if (answer(questions.finalised)) return MpiLibrary::finalised;
  return answer(questions.initialised) ? MpiLibrary::initialised : MpiLibrary::loaded;
}

}  // namespace capstan
