#pragma once

#include "capstan/quantity.hpp"

namespace capstan {

inline constexpr int any_source = -1, any_tag = -1;

/// What a probe or a completed receive tells of a message.
struct MessageInfo {
  int source;
  int tag;
  Bytes size;
};

}  // namespace capstan
