// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>

#include "capstan/error.hpp"
#include "core/platform/net/text_of_file.hpp"
#include "core/tools/cli/topology/calibrate.hpp"
#include "core/tools/cli/topology/topology_file.hpp"

namespace capstan::cli {
namespace {

// Files of whole racks have a few MiB.
constexpr Bytes longest_file{std::uint64_t{64} << 20};

std::string measured_file() {
  const std::string file = calibrated_file();
  std::error_code ignored;  // then there is no file that can be read
  if (file.empty())
    throw InvalidArgument(
        "--topology here: there is neither XDG_CONFIG_HOME nor HOME to look in: name the file that "
        "`capstan calibrate --output FILE` writes");
  if (!std::filesystem::exists(file, ignored))
    throw InvalidArgument(fmt::format(
        "--topology here: this machine has not been measured ({} is missing): run `capstan "
        "calibrate`",
        file));
  return file;
}

}  // namespace

TopologyFile read_topology(const std::string& named) {
  const std::string path = named == "here" ? measured_file() : named;
  return topology_from_text(text_of_file(path, longest_file), path);
}

}  // namespace capstan::cli
