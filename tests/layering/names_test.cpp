// SPDX-License-Identifier: Apache-2.0

// No name is defined twice in one namespace: a program that links both would use either one's
// functions for both, without a word from compiler or linker.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <sstream>

#include "tests/layering/repository.hpp"

namespace capstan::layering {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The namespace that the current line of a file is in, as clang-format writes files. Unnamed ones
/// have the file's name: what they hold is not seen elsewhere.
class Scope {
 public:
  explicit Scope(std::string path) : path_(std::move(path)) {}
  void read(const std::string& line) {
    static const std::regex opens{R"(^namespace\s*(?:CAPSTAN_EXPORT\s+)?([\w:]*)\s*\{)"};
    std::smatch match;
    if (std::regex_search(line, match, opens))
      names_.push_back(match[1].length() > 0 ? match[1].str() : path_);
    else if (line.starts_with("}  // namespace") && !names_.empty())
      names_.pop_back();
  }
  std::string name(const std::string& of) const {
    std::string whole;
    for (const std::string& name : names_) whole += name + "::";
    return whole + of;
  }

 private:
  const std::string path_;
  std::vector<std::string> names_;
};

/// "NAME is defined in FILE and FILE".
std::vector<std::string> doubles(const std::vector<Source>& sources) {
  static const std::regex type{
      R"(^(?:struct|class|union|enum class|enum)\s+(?:alignas\([^)]*\)\s+|\[\[[^\]]*\]\]\s+)?)"
      R"((\w+)(?:\s+final)?\s*(?::[^:;][^;]*|\{.*)?$)"};
  std::map<std::string, std::vector<std::string>> files;
  for (const Source& source : sources) {
    Scope scope{source.path};
    std::istringstream lines{source.text};
    for (std::string line; std::getline(lines, line);) {
      scope.read(line);
      std::smatch match;
      if (std::regex_match(line, match, type)) files[scope.name(match[1])].push_back(source.path);
    }
  }
  std::vector<std::string> found;
  for (const auto& [name, where] : files)
    if (where.size() > 1)
      found.push_back(fmt::format("{} is defined in {} and {}", name, where[0], where[1]));
  return found;
}

TEST(Names, AreDefinedOnce) {
  auto sources = files_of_repository({".cpp", ".hpp"});
  std::erase_if(sources, [](const Source& source) {
    return source.path.starts_with("tests/") || source.path.starts_with("docs/");
  });
  ASSERT_GT(sources.size(), 500u);
  EXPECT_THAT(doubles(sources), IsEmpty());
}

TEST(Names, DoublesAreFound) {
  const std::string one = "namespace capstan {\nstruct Group {\n};\n}  // namespace capstan\n";
  EXPECT_THAT(doubles({{"a.hpp", one}, {"b.hpp", one}}),
              ElementsAre(HasSubstr("capstan::Group is defined in a.hpp and b.hpp")));
  const std::string hidden =
      "namespace capstan {\nnamespace {\nstruct Group {\n};\n}  // namespace\n"
      "}  // namespace capstan\n";
  const std::string other = "namespace capstan::tcp {\nclass Group final : public Base {\n};\n}";
  const std::string declared =
      "namespace capstan {\nstruct Group;\nclass Group::Part {\n};\n}  // namespace capstan\n";
  EXPECT_THAT(doubles({{"a.hpp", one}, {"b.hpp", hidden}, {"c.hpp", other}, {"d.hpp", declared}}),
              IsEmpty());
}

}  // namespace
}  // namespace capstan::layering
