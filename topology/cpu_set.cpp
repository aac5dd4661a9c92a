// SPDX-License-Identifier: Apache-2.0
#include "topology/cpu_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "capstan/error.hpp"

namespace capstan {
namespace {

[[noreturn]] void reject(std::string_view text) {
  throw InvalidArgument(fmt::format(
      "'{}' is no list of processors: write indices and ranges up to {}, for example 0-3,8", text,
      CpuSet::largest_index));
}

unsigned parse_index(std::string_view item, std::string_view text) {
  unsigned index = 0;
  const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), index);
  const bool complete = error == std::errc{} && end == item.data() + item.size();
  if (!complete || index > CpuSet::largest_index) reject(text);
  return index;
}

/// Appends one item of `text`: "4" or "0-3".
void append_item(std::vector<unsigned>& cpus, std::string_view item, std::string_view text) {
  const std::size_t dash = item.find('-');
  const unsigned first = parse_index(item.substr(0, dash), text);
  const unsigned last = dash == item.npos ? first : parse_index(item.substr(dash + 1), text);
  if (first > last) reject(text);
  for (unsigned cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
}

}  // namespace

CpuSet::CpuSet(std::vector<unsigned> cpus) : cpus_(std::move(cpus)) {
  std::ranges::sort(cpus_);
  const auto repeated = std::ranges::unique(cpus_);
  cpus_.erase(repeated.begin(), repeated.end());
}

CpuSet CpuSet::parse(std::string_view text) {
  CpuSet set;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    std::vector<unsigned> item;
    append_item(item, rest.substr(0, comma), text);
    set = set | CpuSet{std::move(item)};
    if (comma == rest.npos) break;
    rest.remove_prefix(comma + 1);
    if (rest.empty()) reject(text);
  }
  return set;
}

bool CpuSet::contains(unsigned cpu) const {
  return std::ranges::binary_search(cpus_, cpu);
}

bool CpuSet::contains(const CpuSet& other) const {
  return std::ranges::includes(cpus_, other.cpus_);
}

CpuSet CpuSet::operator&(const CpuSet& other) const {
  CpuSet common;
  std::ranges::set_intersection(cpus_, other.cpus_, std::back_inserter(common.cpus_));
  return common;
}

CpuSet CpuSet::operator|(const CpuSet& other) const {
  CpuSet both;
  std::ranges::set_union(cpus_, other.cpus_, std::back_inserter(both.cpus_));
  return both;
}

std::string to_string(const CpuSet& set) {
  return to_ranges(std::vector<unsigned>(set.begin(), set.end()));
}

std::string to_ranges(std::span<const unsigned> ascending) {
  std::string text;
  for (std::size_t first = 0, last; first < ascending.size(); first = last + 1) {
    last = first;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", ascending[first]);
    if (last > first) text += fmt::format("-{}", ascending[last]);
  }
  return text;
}

}  // namespace capstan
