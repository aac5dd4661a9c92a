// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/mpi/linked_libraries.hpp"

#include <elf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "capstan/error.hpp"
#include "core/tools/cli/output_of.hpp"

namespace capstan::cli {
namespace {

namespace fs = std::filesystem;

/// The file that execvp() would execute.
fs::path file_of_program(const std::string& program) {
  if (program.find('/') != std::string::npos) return program;
  const char* const searched = std::getenv("PATH");
  std::istringstream folders{searched ? searched : ""};
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const fs::path file = fs::path{folder} / program; ::access(file.c_str(), X_OK) == 0)
      return file;
  throw InvalidArgument(
      fmt::format("there is no program '{}' in PATH: check the name, or give the path (./{})",
                  program, program));
}

template <class Header>
bool read_header(std::ifstream& file, std::uint64_t offset, Header& header) {
  file.seekg(static_cast<std::streamoff>(offset));
  return static_cast<bool>(file.read(reinterpret_cast<char*>(&header), sizeof header));
}

/// The loader that a program names; "" for scripts, and for what is linked statically.
std::string loader_of(const fs::path& program) {
  std::ifstream file{program, std::ios::binary};
  if (!file) throw InvalidArgument(fmt::format("'{}' cannot be read", program.string()));
  Elf64_Ehdr head{};
  if (!read_header(file, 0, head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_ident[EI_CLASS] != ELFCLASS64)
    return "";
  for (unsigned i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr part{};
    if (!read_header(file, head.e_phoff + std::uint64_t{i} * head.e_phentsize, part)) return "";
    if (part.p_type != PT_INTERP) continue;
    char path[4096] = {};
    file.seekg(static_cast<std::streamoff>(part.p_offset));
    file.read(path, static_cast<std::streamsize>(std::min(part.p_filesz, sizeof path - 1)));
    return path;
  }
  return "";
}

/// A line of `ld.so --list`: "libmpi.so.40 => /usr/lib/libmpi.so.40 (0x7f..)", or "=> not found".
LinkedLibrary parse_library(const std::string& line) {
  std::istringstream words{line};
  LinkedLibrary library;
  std::string arrow, path;
  words >> library.soname >> arrow >> path;
  if (arrow == "=>" && path.starts_with('/')) library.path = path;
  return library;
}

}  // namespace

std::vector<LinkedLibrary> libraries_of(const std::string& program) {
  const fs::path file = file_of_program(program);
  const std::string loader = loader_of(file);
  if (loader.empty())
    throw InvalidArgument(
        fmt::format("'{0}' is a script or linked statically, so that its MPI cannot be looked up: "
                    "start it by the launcher of its MPI: capstan mpi -- mpirun -n N {0}",
                    program));
  std::vector<LinkedLibrary> all;
  std::istringstream lines{output_of({loader, "--list", fs::absolute(file).string()})};
  for (std::string line; std::getline(lines, line);) all.push_back(parse_library(line));
  return all;
}

}  // namespace capstan::cli
