// SPDX-License-Identifier: Apache-2.0

// Gives libFuzzer the seeds of the target: they are written into the corpus, the first folder that
// the command line names, before libFuzzer reads it.

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz.hpp"

namespace capstan::fuzz {
namespace {

namespace fs = std::filesystem;

/// The first argument that is not an option, unless it is a file: that is an input to run again.
std::optional<fs::path> corpus_of(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments)
    if (!argument.starts_with('-'))
      return fs::is_regular_file(argument) ? std::nullopt : std::optional<fs::path>{argument};
  return std::nullopt;
}

void write_seeds(const fs::path& corpus) {
  fs::create_directories(corpus);
  int number = 0;
  for (const std::string& seed : seeds())
    std::ofstream{corpus / ("seed-" + std::to_string(number++)), std::ios::binary} << seed;
}

}  // namespace
}  // namespace capstan::fuzz

/// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name for it
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::vector<std::string> arguments(*argv + 1, *argv + *argc);
  if (const auto corpus = capstan::fuzz::corpus_of(arguments)) capstan::fuzz::write_seeds(*corpus);
  return 0;
}
