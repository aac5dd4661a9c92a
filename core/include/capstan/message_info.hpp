// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "capstan/export.hpp"
#include "capstan/quantity.hpp"

namespace CAPSTAN_EXPORT capstan {

inline constexpr int any_source = -1, any_tag = -1;

/// The properties of a message that a probe has found or a receive has completed.
struct MessageInfo {
  int source;
  int tag;
  Bytes size;
};

}  // namespace capstan
