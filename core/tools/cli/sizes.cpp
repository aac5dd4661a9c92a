// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/sizes.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <sstream>

#include "capstan/error.hpp"
#include "core/schedule/selection/rules.hpp"
#include "core/tools/cli/numbers.hpp"

namespace capstan::cli {
namespace {

/// More than can be verified in a life.
constexpr std::size_t longest_list = 100'000;
constexpr Bytes largest_size{std::uint64_t{1} << 40};

}  // namespace

int whole_number(const std::string& text, const char* option) {
  const auto value = number_of<int>(text);
  if (!value || *value < 0)
    throw InvalidArgument(fmt::format("{}: '{}' is not a whole number", option, text));
  return *value;
}

Bytes parse_size(const std::string& text, const char* option) {
  const auto bytes = parse_bytes(text);
  if (!bytes || *bytes > largest_size)
    throw InvalidArgument(
        fmt::format("{} {}: expected a size up to 1024G, such as 8, 64k or 256M", option, text));
  return *bytes;
}

std::vector<int> parse_list(const std::string& text, const char* option) {
  std::vector<int> values;
  std::istringstream parts{text};
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t dash = part.find('-');
    const int first = whole_number(part.substr(0, dash), option);
    const int last =
        dash == std::string::npos ? first : whole_number(part.substr(dash + 1), option);
    if (first > last) throw InvalidArgument(fmt::format("{}: '{}' runs backwards", option, part));
    for (int value = first; value <= last && values.size() <= longest_list; ++value)
      values.push_back(value);
  }
  if (values.empty() || values.size() > longest_list)
    throw InvalidArgument(fmt::format("{} '{}': from 1 to {} numbers are possible, such as 1-3,8",
                                      option, text, longest_list));
  return values;
}

Hosts parse_hosts(const std::string& text) {
  const std::size_t by = text.find('x');
  const auto in_range = [&](auto ranks) {
    if (ranks < 1 || ranks > most_ranks)
      throw InvalidArgument(
          fmt::format("--hosts {}: not from 1 to {} ranks in all", text, most_ranks));
  };
  if (by == std::string::npos) {
    std::vector<int> host_of = parse_list(text, "--hosts");
    in_range(host_of.size());
    return Hosts{std::move(host_of)};
  }
  const std::int64_t hosts = whole_number(text.substr(0, by), "--hosts"),
                     each = whole_number(text.substr(by + 1), "--hosts");
  in_range(hosts * each);
  std::vector<int> host_of;
  for (int host = 0; host < hosts; ++host)
    host_of.insert(host_of.end(), static_cast<std::size_t>(each), host);
  return Hosts{std::move(host_of)};
}

}  // namespace capstan::cli
