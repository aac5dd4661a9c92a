// SPDX-License-Identifier: Apache-2.0
#include "tests/layering/repository.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace capstan::layering {
namespace {

namespace fs = std::filesystem;

bool is_left_out(const fs::path& folder) {
  const std::string name = folder.filename();
  return name.starts_with('.') || name == "build";
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::vector<Source> files_of_repository(const std::vector<std::string>& suffixes) {
  const fs::path root = CAPSTAN_SOURCE_DIRECTORY;
  std::vector<Source> files;
  fs::recursive_directory_iterator entry{root};
  for (; entry != fs::recursive_directory_iterator{}; ++entry) {
    if (entry->is_directory() && is_left_out(entry->path())) entry.disable_recursion_pending();
    const bool wanted = std::ranges::any_of(suffixes, [&](const std::string& suffix) {
      return entry->path().filename().string().ends_with(suffix);
    });
    if (!wanted || !entry->is_regular_file()) continue;
    files.push_back({entry->path().lexically_relative(root), content_of(entry->path())});
  }
  return files;
}

int line_of(const std::string& text, std::size_t offset) {
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(offset);
  return 1 + static_cast<int>(std::count(text.begin(), end, '\n'));
}

}  // namespace capstan::layering
