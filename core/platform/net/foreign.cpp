// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/foreign.hpp"

#include <fmt/format.h>

#include "capstan/error.hpp"

namespace capstan {

void Foreign::refuse(std::string_view field, std::uint64_t value) const {
  throw Aborted(fmt::format(
      "rank {} found that rank {} says {} is {}, which cannot be: its memory has been overwritten, "
      "or it is another version of Capstan",
      self_.value(), peer_.value(), field, value));
}

}  // namespace capstan
