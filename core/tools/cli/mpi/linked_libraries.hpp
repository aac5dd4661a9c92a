// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace capstan::cli {

/// A library that a program needs.
struct LinkedLibrary {
  std::string soname;
  std::filesystem::path path;  ///< empty: the loader does not find it
};

/// The libraries that the loader would load for a program, a path or a name in PATH. Throws
/// InvalidArgument for what is none, for scripts, and for programs that are linked statically.
std::vector<LinkedLibrary> libraries_of(const std::string& program);

}  // namespace capstan::cli
