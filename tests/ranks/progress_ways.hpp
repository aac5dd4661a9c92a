// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tests/ranks/thread_world.hpp"

namespace capstan {

/// Operations progress by a thread from the start (true), or by waits.
class ProgressWays : public ::testing::TestWithParam<bool> {
 public:
  static std::string name(const ::testing::TestParamInfo<bool>& test) {
    return test.param ? "ByThread" : "ByWaits";
  }

 protected:
  static Settings settings() {
    Settings settings = bounded_settings();
    settings.chunk = Bytes{4096};
    settings.progress_thread = GetParam();
    return settings;
  }
};

}  // namespace capstan
