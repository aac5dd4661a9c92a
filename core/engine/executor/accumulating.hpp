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

/// As long as one lives, this thread runs callbacks, perhaps amid a call.
class CallingBack {
 public:
  CallingBack() { ++depth(); }
  CallingBack(const CallingBack&) = delete;
  ~CallingBack() { --depth(); }
  static int& depth() {
    thread_local int depth = 0;
    return depth;
  }
};

}  // namespace capstan
