// SPDX-License-Identifier: Apache-2.0

// Settings from the environment.

#include "capstan/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "capstan/deadline.hpp"
#include "capstan/error.hpp"
#include "core/communicator/variables.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

/// Sets a variable as long as it lives.
struct Variable {
  Variable(const char* given, const char* value) : name(given) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name); }
  Variable(const Variable&) = delete;
  const char* name;
};

/// The error of a value, which names the variable; "accepted" if there is none.
std::string refusal(const char* name, const char* value) {
  const Variable variable{name, value};
  try {
    Settings::from_environment();
    return "accepted";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr(std::string{name} + "='" + value + "'"));
    return error.what();
  }
}

TEST(SettingsFromTheEnvironment, TimesAreSeconds) {
  for (const char* name : {"CAPSTAN_TIMEOUT", "CAPSTAN_JOIN_TIMEOUT"})
    for (const char* value : {"60x", "x", "60 ", "0", "-1", "nan", "-inf", "1,5"})
      EXPECT_THAT(refusal(name, value), HasSubstr("expected a time in seconds"));
  const Variable timeout{"CAPSTAN_TIMEOUT", "0.0001"}, join{"CAPSTAN_JOIN_TIMEOUT", "1e9"};
  EXPECT_EQ(Settings::from_environment().timeout, 1ms) << "rounded up: never without a limit";
  EXPECT_EQ(Settings::from_environment().join_timeout, longest_time_limit);
  for (const char* value : {"1e10", "1e300", "inf"}) {
    const Variable longer{"CAPSTAN_TIMEOUT", value};
    EXPECT_EQ(Settings::from_environment().timeout, longest_time_limit) << value;
  }
}

TEST(SettingsFromTheEnvironment, SizesHaveBounds) {
  for (const char* value : {"4095", "65m", "64mm", "-4k", "4 k", "k"})
    EXPECT_THAT(refusal("CAPSTAN_CHUNK", value), HasSubstr("expected a size from 4k to 64m"));
  for (const char* value : {"-1", "64x", "1 m"})
    EXPECT_THAT(refusal("CAPSTAN_UNEXPECTED_MESSAGES", value), HasSubstr("expected a size"));
  EXPECT_EQ(Settings::from_environment().unexpected_messages, Bytes{64 << 20});
  const Variable chunk{"CAPSTAN_CHUNK", "64m"}, messages{"CAPSTAN_UNEXPECTED_MESSAGES", "0"};
  EXPECT_EQ(Settings::from_environment().chunk, Bytes{64 << 20});
  EXPECT_EQ(Settings::from_environment().unexpected_messages, Bytes{0});
}

TEST(SettingsFromTheEnvironment, NumbersAndSwitchesAreWhole) {
  for (const char* value : {"0", "9", "2x", "1.5", ""})
    if (*value)
      EXPECT_THAT(refusal("CAPSTAN_RAILS", value), HasSubstr("a number from 1 to 8"));
    else
      EXPECT_EQ(refusal("CAPSTAN_RAILS", value), "accepted") << "as if it were not set";
  for (const char* value : {"yes", "2", "10", "true"})
    EXPECT_THAT(refusal("CAPSTAN_AUTOTUNE", value), HasSubstr("0 or 1"));
  const Variable rails{"CAPSTAN_RAILS", "8"}, off{"CAPSTAN_AUTOTUNE", "0"};
  EXPECT_EQ(Settings::from_environment().rails, 8);
  EXPECT_FALSE(Settings::from_environment().autotune);
  EXPECT_TRUE(Settings::from_environment().device_executor);
  const Variable staged{"CAPSTAN_DEVICE_EXECUTOR", "0"};
  EXPECT_FALSE(Settings::from_environment().device_executor);
}

TEST(SettingsByName, AreReadAsTheyAreShown) {
  for (const std::string_view name : Settings::names()) {
    Settings settings;
    const std::string usual = settings.text(name);
    settings.set(name, usual);
    EXPECT_EQ(settings.text(name), usual) << name;
  }
  Settings settings;
  for (const auto& [name, text] :
       std::map<std::string, std::string>{{"timeout", "0.25"},
                                          {"network", "ofi"},
                                          {"gpu_direct", "never"},
                                          {"device_executor", "0"},
                                          {"chunk", "64k"},
                                          {"rails", "3"},
                                          {"proof_limit", "trust"},
                                          {"algorithm", "all_reduce:ring"}}) {
    settings.set(name, text);
    EXPECT_EQ(settings.text(name), text) << name;
  }
  EXPECT_EQ(settings.timeout, 250ms);
  EXPECT_EQ(settings.chunk, Bytes{64 << 10});
  EXPECT_TRUE(settings.trust_long_proofs);
}

TEST(SettingsByName, WhatCannotBeReadChangesNothing) {
  Settings settings;
  for (const auto& [name, text] : std::map<std::string, std::string>{{"timeout", "0"},
                                                                     {"autotune", "yes"},
                                                                     {"wire", "paper"},
                                                                     {"rails", "9"},
                                                                     {"proof_limit", "never"},
                                                                     {"chunk", "1"}}) {
    const std::string before = settings.text(name);
    EXPECT_THROW(settings.set(name, text), InvalidArgument) << name;
    EXPECT_EQ(settings.text(name), before);
  }
}

TEST(SettingsByName, UnknownNamesAreRefusedWithTheNearest) {
  Settings settings;
  const auto refusal_of = [&](std::string_view name) -> std::string {
    try {
      settings.set(name, "1");
      return "accepted";
    } catch (const InvalidArgument& error) {
      return error.what();
    }
  };
  EXPECT_THAT(refusal_of("time_out"), HasSubstr("did you mean timeout?"));
  EXPECT_THAT(refusal_of("colour"), HasSubstr("there are timeout, join_timeout"));
  EXPECT_THROW(settings.text("colour"), InvalidArgument);
}

TEST(VariablesOfTheEnvironment, MisspeltOnesAreFoundWithTheNearest) {
  const Variable wrong{"CAPSTAN_TIMEOUTS", "3"}, own{"CAPSTAN_ELEPHANT", "1"},
      right{"CAPSTAN_TIMEOUT", "3"}, launch{"CAPSTAN_LOG", "warn"};
  std::map<std::string, std::string> found;
  for (const auto& [name, near] : unknown_variables()) found.emplace(name, near);
  EXPECT_EQ(found["CAPSTAN_TIMEOUTS"], "CAPSTAN_TIMEOUT");
  EXPECT_TRUE(found.contains("CAPSTAN_ELEPHANT"));
  EXPECT_EQ(found["CAPSTAN_ELEPHANT"], "");
  EXPECT_FALSE(found.contains("CAPSTAN_TIMEOUT"));
  EXPECT_FALSE(found.contains("CAPSTAN_LOG"));
}

}  // namespace
}  // namespace capstan
