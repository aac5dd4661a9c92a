// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/mpi/find_mpi.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "bindings/mpi/libraries.hpp"
#include "capstan/error.hpp"
#include "core/tools/cli/mpi/linked_libraries.hpp"
#include "core/tools/cli/output_of.hpp"

namespace capstan::cli {
namespace {

namespace fs = std::filesystem;

/// A launcher of programs of an MPI.
struct MpiLauncher {
  const char* mpi;   ///< as in mpi::Library
  const char* name;  ///< of those that share an interface
  const char* sign;  ///< in what it says of its version
  std::vector<const char*> files;
  std::vector<std::string> options;
};

/// Debian's names come first: there mpirun may be another MPI's.
const std::vector<MpiLauncher>& mpi_launchers() {
  static const auto& all = *new std::vector<MpiLauncher>{
      {"Open MPI", "Open MPI", "open-mpi.org", {"mpirun.openmpi", "mpirun"}, {"--oversubscribe"}},
      {"MPICH", "MPICH", "HYDRA", {"mpirun.mpich", "mpiexec.hydra", "mpirun"}, {}},
      {"MPICH", "Intel MPI", "Intel(R) MPI", {"mpiexec.hydra", "mpirun"}, {}}};
  return all;
}

/// Folders of programs: beside the library and above it, as its path says and where links lead;
/// then those of PATH.
std::vector<fs::path> folders_of_launchers(const fs::path& library) {
  std::vector<fs::path> folders;
  const auto add = [&](const fs::path& folder) {
    if (std::ranges::find(folders, folder) == folders.end()) folders.push_back(folder);
  };
  std::error_code ignored;
  for (const fs::path& file : {library, fs::canonical(library, ignored)})
    for (fs::path above = file.parent_path(); above.has_relative_path();
         above = above.parent_path())
      add(above / "bin");
  const char* const searched = std::getenv("PATH");
  std::istringstream words{searched ? searched : ""};
  for (std::string folder; std::getline(words, folder, ':');)
    if (!folder.empty()) add(folder);
  return folders;
}

bool starts_programs_of(const MpiLauncher& launcher, const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return false;
  try {
    return output_of({file.string(), "--version"}).find(launcher.sign) != std::string::npos;
  } catch (const Error&) {  // it cannot be executed
    return false;
  }
}

const mpi::Library* served_library(const std::string& soname) {
  const auto* const found = std::ranges::find_if(
      mpi::libraries, [&](const mpi::Library& each) { return soname == each.soname; });
  return found == std::end(mpi::libraries) ? nullptr : found;
}

std::string served_sonames() {
  std::string all;
  for (const mpi::Library& each : mpi::libraries)
    all += fmt::format("{}{}", all.empty() ? "" : ", ", each.soname);
  return all;
}

/// The library of MPI among those of a program, and its row. Throws InvalidArgument.
std::pair<LinkedLibrary, const mpi::Library*> mpi_of(const std::string& program) {
  std::string unknown;
  for (LinkedLibrary& library : libraries_of(program)) {
    if (const auto* const row = served_library(library.soname)) return {std::move(library), row};
    if (library.soname.starts_with("libmpi.so")) unknown = library.soname;
  }
  if (!unknown.empty())
    throw InvalidArgument(
        fmt::format("'{}' links {}, an MPI that Capstan does not serve: it has {}", program,
                    unknown, served_sonames()));
  throw InvalidArgument(
      fmt::format("'{0}' links no MPI ({1}). One of Capstan's own programs starts without --mpi; "
                  "one that loads its MPI itself, as Python does, by the launcher of that MPI: "
                  "capstan mpi -- mpirun -n N {0}",
                  program, served_sonames()));
}

}  // namespace

FoundMpi find_mpi(const std::string& program) {
  const auto [library, row] = mpi_of(program);
  if (library.path.empty())
    throw InvalidArgument(
        fmt::format("'{}' needs {}, which the loader does not find: load the module of its MPI, or "
                    "name the library's folder in LD_LIBRARY_PATH",
                    program, library.soname));
  std::string searched;
  for (const fs::path& folder : folders_of_launchers(library.path)) {
    searched += fmt::format("{}{}", searched.empty() ? "" : ", ", folder.string());
    for (const MpiLauncher& launcher : mpi_launchers())
      for (const char* const file : launcher.files)
        if (launcher.mpi == std::string_view{row->mpi} &&
            starts_programs_of(launcher, folder / file))
          return {launcher.name, library.path, folder / file, launcher.options};
  }
  throw InvalidArgument(
      fmt::format("'{}' links {} ({}), but no mpirun of it is in {}: install it, or put its folder "
                  "into PATH",
                  program, row->mpi, library.path.string(), searched));
}

}  // namespace capstan::cli
