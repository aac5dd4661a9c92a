// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/processes/processes.hpp"
#include "tests/schema.hpp"

namespace capstan {

/// Returns the words in which `capstan perf` refuses options.
inline std::string refused_by_perf(std::vector<std::string> options) {
  options.insert(options.begin(), {CAPSTAN_PROGRAM, "perf", "-n", "2"});
  const auto result = run_command(options);
  EXPECT_EQ(result.status, 2) << result.output;
  EXPECT_THAT(result.output, ::testing::Not(::testing::HasSubstr("median")));
  return result.output;
}

/// A document follows the schema, and says where it comes from.
inline nlohmann::json checked_results(const CommandResult& result) {
  EXPECT_EQ(result.status, 0) << result.output;
  const auto document = nlohmann::json::parse(result.output);
  const test::Schema schema{RESULTS_SCHEMA};
  EXPECT_THAT(schema.faults(document), ::testing::IsEmpty());
  return document;
}

}  // namespace capstan
