// SPDX-License-Identifier: Apache-2.0

// Every setting is in every door: docs/settings.md, the public headers of C++ and C. Every variable
// that the sources read is in a table, so that `capstan settings` shows it and misspelt ones are
// found.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>

#include "core/communicator/setting_table.hpp"
#include "core/communicator/variables.hpp"
#include "tests/layering/repository.hpp"

namespace capstan::layering {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string file(const std::string& path) {
  for (Source& source : files_of_repository({path.substr(path.rfind('/') + 1)}))
    if (source.path == path) return std::move(source.text);
  ADD_FAILURE() << "there is no " << path;
  return "";
}

bool has_word(const std::string& text, const std::string& word) {
  return std::regex_search(text, std::regex{"\\b" + word + "\\b"});
}

TEST(SettingDoors, EachSettingIsInEveryDoor) {
  const std::string table = file("docs/settings.md");
  const std::string in_c = file("bindings/c/capstan.h"), of_c = file("bindings/c/settings.cpp");
  const std::string header = file("core/include/capstan/settings.hpp");
  for (const Setting& setting : setting_table()) {
    const std::string name{setting.name};
    EXPECT_TRUE(has_word(table, setting.variable())) << setting.variable();
    EXPECT_TRUE(has_word(header, setting.variable())) << setting.variable();
    EXPECT_TRUE(has_word(in_c, name)) << name;
    EXPECT_THAT(of_c, HasSubstr("own." + name)) << name;
  }
  EXPECT_TRUE(has_word(table, "CAPSTAN_LOG"));
}

/// "timeout" of "std::chrono::milliseconds timeout = ...".
std::set<std::string> members_of_settings() {
  const std::string header = file("core/include/capstan/settings.hpp");
  const std::size_t begin = header.find("struct Settings {");
  static const std::regex member{"\n  [A-Za-z:_]+ ([a-z_]+)(?:\\{.*\\}| = .*)?;"};
  std::set<std::string> members;
  for (std::sregex_iterator
           at{header.begin() + static_cast<std::ptrdiff_t>(begin), header.end(), member},
       end;
       at != end; ++at)
    members.insert((*at)[1]);
  members.erase("trust_long_proofs");  // proof_limit sets it
  return members;
}

TEST(SettingDoors, TheTableHasEachMember) {
  std::set<std::string> rows;
  for (const Setting& setting : setting_table())
    EXPECT_TRUE(rows.emplace(setting.name).second) << setting.name << " is there twice";
  EXPECT_EQ(rows, members_of_settings());
}

TEST(SettingDoors, EachVariableThatIsReadIsInATable) {
  std::set<std::string> known;
  for (const Setting& setting : setting_table()) known.insert(setting.variable());
  for (const OtherVariable& other : other_variables()) known.emplace(other.name);
  known.insert("CAPSTAN_TRIALS");  // a former name, which is refused
  static const std::regex variable{"\"(CAPSTAN_[A-Z_]+)\""};
  std::vector<std::string> unknown;
  for (const Source& source : files_of_repository({".cpp", ".hpp"})) {
    if (source.path.starts_with("tests/") || source.path.starts_with("perf/bindings")) continue;
    for (std::sregex_iterator at{source.text.begin(), source.text.end(), variable}, end; at != end;
         ++at)
      if (!known.contains((*at)[1])) unknown.push_back(source.path + ": " + (*at)[1].str());
  }
  EXPECT_THAT(unknown, IsEmpty());
}

}  // namespace
}  // namespace capstan::layering
