#pragma once

#include "capstan/quantity.hpp"

namespace capstan {

inline constexpr int any_source = -1, any_tag = -1;

/// The properties of a message that a probe has found or a receive has completed.
struct MessageInfo {
  int source;
  int tag;
  Bytes size;
};

}  // namespace capstan
