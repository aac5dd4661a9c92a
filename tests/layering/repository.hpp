// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace capstan::layering {

struct Source {
  std::string path;  ///< from the root of the repository
  std::string text;
};

/// The files of the repository whose names end in one of `suffixes`, without builds and what is
/// hidden. Paths are relative to the repository.
std::vector<Source> files_of_repository(const std::vector<std::string>& suffixes);

/// Which line of `text` holds `offset`, from 1.
int line_of(const std::string& text, std::size_t offset);

}  // namespace capstan::layering
