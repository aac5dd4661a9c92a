// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tests/layering/repository.hpp"

namespace capstan::layering {

/// One #include line.
struct Include {
  std::string target;
  bool quoted;
  int line;
};

std::vector<Include> includes_of(const std::string& text);

/// The breaches in `sources` of the direction of includes, a sentence each: a layer that reaches up
/// or sideways, a library or system header that a layer must not use, a quoted header that is not
/// there, a folder without a rule, headers that include each other in a circle.
std::vector<std::string> violations(const std::vector<Source>& sources);

}  // namespace capstan::layering
