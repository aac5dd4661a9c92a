// SPDX-License-Identifier: Apache-2.0
#include "core/platform/memory/registration/memory_map.hpp"

#include <fstream>
#include <sstream>
#include <string>

namespace capstan {
namespace {

/// One line of /proc/self/maps.
struct Mapping {
  AddressRange range;
  bool private_anonymous = false;
};

bool parse(const std::string& line, Mapping& mapping) {
  std::istringstream fields{line};
  char dash = 0;
  std::string permissions, offset, device;
  std::uint64_t inode = 0;
  fields >> std::hex >> mapping.range.begin >> dash >> mapping.range.end >> permissions >> offset >>
      device >> std::dec >> inode;
  mapping.private_anonymous = permissions.ends_with('p') && inode == 0;
  return !fields.fail();
}

}  // namespace

bool is_private_anonymous(AddressRange range) {
  std::ifstream maps{"/proc/self/maps"};
  auto at = range.begin;  // the range up to here is private and anonymous
  std::string line;
  for (Mapping mapping; std::getline(maps, line) && parse(line, mapping);) {
    if (mapping.range.end <= at) continue;
    if (mapping.range.begin > at || !mapping.private_anonymous) return false;
    at = mapping.range.end;
    if (at >= range.end) return true;
  }
  return false;
}

}  // namespace capstan
