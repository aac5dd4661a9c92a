// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace capstan {

/// As long as one lives, this thread runs the function of a user's operation, for a call that it
/// moves on: it can neither wait for a call nor start one.
class Accumulating {
 public:
  Accumulating() { applies() = true; }
  Accumulating(const Accumulating&) = delete;
  ~Accumulating() { applies() = false; }
  static bool& applies() {
    thread_local bool applies = false;
    return applies;
  }
};

}  // namespace capstan
