// SPDX-License-Identifier: Apache-2.0

// docs/requirements.md says what is promised, a row each, and the tests that prove it. A row that
// works has a test: one of the suite Requirement that begins with the row's name, or one that the
// row names. No test of that suite proves a row that is not there.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/layering/repository.hpp"

namespace capstan::layering {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// "Suite.Name" of a test. A typed or parameterised one has neither prefix nor suffix.
using Tests = std::set<std::string>;

struct Row {
  std::string name, state;
  std::vector<std::string> proofs;  ///< tests that the row names
};

Tests tests_in(const std::vector<Source>& sources) {
  static const std::regex test{"\\b(?:TYPED_)?TEST(?:_F|_P)?\\(\\s*(\\w+),\\s*(\\w+)\\)"};
  static const std::regex property{"\\bRC_GTEST_PROP\\(\\s*(\\w+),\\s*(\\w+),"};
  Tests tests;
  for (const Source& source : sources)
    for (const std::regex* form : {&test, &property})
      for (std::sregex_iterator at{source.text.begin(), source.text.end(), *form}, end; at != end;
           ++at)
        tests.insert(fmt::format("{}.{}", (*at)[1].str(), (*at)[2].str()));
  return tests;
}

/// Tests are named in code font: `Suite.Name`.
std::vector<std::string> proofs_in(const std::string& cell) {
  static const std::regex named{"`(\\w+\\.\\w+)`"};
  std::vector<std::string> proofs;
  for (std::sregex_iterator at{cell.begin(), cell.end(), named}, end; at != end; ++at)
    proofs.push_back((*at)[1]);
  return proofs;
}

/// `| V6 | sentence | state | remark |`.
std::vector<Row> rows_in(const std::string& document) {
  static const std::regex form{
      "\\| *([A-Z][0-9]+) *\\|[^|]*\\| *(works|different|partly|missing) *\\|([^|]*)\\| *"};
  std::vector<Row> rows;
  std::istringstream lines{document};
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, form))
      rows.push_back({match[1], match[2], proofs_in(match[3])});
  }
  return rows;
}

/// Lines that look like a row of the table but have another form.
std::vector<std::string> malformed(const std::string& document) {
  static const std::regex begins{"\\| *[A-Z][0-9]+ *\\|.*"};
  std::vector<std::string> found;
  std::istringstream lines{document};
  for (std::string line; std::getline(lines, line);)
    if (std::regex_match(line, begins) && rows_in(line).empty())
      found.push_back(fmt::format("not `| row | sentence | state | remark |`: {}", line));
  return found;
}

bool holds(const Row& row) {
  return row.state == "works" || row.state == "different";
}

std::vector<std::string> disagreements(const std::string& document, const Tests& tests) {
  auto found = malformed(document);
  std::map<std::string, Row> rows;
  for (const Row& row : rows_in(document)) {
    if (!rows.emplace(row.name, row).second)
      found.push_back(fmt::format("{} is there twice", row.name));
    for (const std::string& proof : row.proofs)
      if (!tests.contains(proof))
        found.push_back(fmt::format("{} names {}, which is no test", row.name, proof));
  }

  std::set<std::string> proven;
  for (const std::string& test : tests) {
    if (!test.starts_with("Requirement.")) continue;
    const std::string name = test.substr(12, test.find('_') - 12);
    const auto row = rows.find(name);
    if (row == rows.end() || !holds(row->second))
      found.push_back(fmt::format("{} proves {}, which the document does not promise", test, name));
    proven.insert(name);
  }
  for (const auto& [name, row] : rows)
    if (row.state == "works" && row.proofs.empty() && !proven.contains(name))
      found.push_back(fmt::format("{} works, but no test proves it", name));
  return found;
}

std::string text_of(const std::string& path) {
  for (const Source& source : files_of_repository({".md"}))
    if (source.path == path) return source.text;
  return {};
}

TEST(Requirements, AreProvenByTestsThatExist) {
  auto sources = files_of_repository({".cpp"});
  std::erase_if(sources, [](const Source& source) {
    return !source.path.starts_with("tests/") || source.path.starts_with("tests/layering/");
  });
  ASSERT_GT(sources.size(), 100U);
  const std::string document = text_of("docs/requirements.md");
  ASSERT_FALSE(rows_in(document).empty());
  EXPECT_THAT(disagreements(document, tests_in(sources)), IsEmpty());
}

TEST(Requirements, ADocumentThatDisagreesIsFound) {
  const Tests tests = tests_in({{"tests/a.cpp",
                                 "TEST(Requirement, V1_Holds) {\n"
                                 "TEST(Requirement, V2_IsNotPromised) {\n"
                                 "RC_GTEST_PROP(Requirement, V3_HoldsForAll, ()) {\n"
                                 "TEST_P(Other, Proof) {\n"}});
  EXPECT_THAT(disagreements("| row | sentence | state | remark |\n"
                            "| V1 | a | works | |\n"
                            "| V2 | b | missing | |\n"
                            "| V3 | c | works | |\n"
                            "| V4 | d | works | |\n"
                            "| V5 | e | works | `Other.Proof` |\n"
                            "| V6 | f | works | `Other.Gone` |\n"
                            "| V7 | g | perhaps | |\n"
                            "| V1 | h | partly | |\n",
                            tests),
              ElementsAre("not `| row | sentence | state | remark |`: | V7 | g | perhaps | |",
                          "V6 names Other.Gone, which is no test", "V1 is there twice",
                          "Requirement.V2_IsNotPromised proves V2, which the document does not "
                          "promise",
                          "V4 works, but no test proves it"));
}

}  // namespace
}  // namespace capstan::layering
