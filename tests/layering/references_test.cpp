// SPDX-License-Identifier: Apache-2.0

// References to documents lead somewhere: those of constants that were measured, which say where by
// `// measured: docs/FILE.md#ANCHOR`, and the links of documents to files and to headings.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/layering/repository.hpp"

namespace capstan::layering {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Anchors = std::set<std::string>;

/// As GitHub makes it of a heading: in small letters, without punctuation, spaces as hyphens.
std::string slug_of(const std::string& heading) {
  std::string slug;
  for (const char c : heading) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == ' ') slug += '-';
    if (std::isalnum(byte) != 0 || c == '-' || c == '_' || byte >= 128)
      slug += static_cast<char>(std::tolower(byte));
  }
  return slug;
}

Anchors anchors_of(const std::string& document) {
  static const std::regex heading{"^#+ +(.*[^ ]) *$"}, explicit_id{"<a id=\"([^\"]+)\">"};
  Anchors anchors;
  std::istringstream lines{document};
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, heading)) anchors.insert(slug_of(match[1]));
    for (std::sregex_iterator at{line.begin(), line.end(), explicit_id}, end; at != end; ++at)
      anchors.insert((*at)[1]);
  }
  return anchors;
}

struct Tag {
  std::string place, document, anchor;
};

std::vector<Tag> tags_of(const Source& source) {
  static const std::regex tag{"measured: *([^ #\\n]*)#?([^ \\n,;]*)"};
  std::vector<Tag> tags;
  const std::string& text = source.text;
  for (std::sregex_iterator at{text.begin(), text.end(), tag}, end; at != end; ++at) {
    if (!(*at)[1].str().starts_with("docs/")) continue;
    const int line = line_of(text, static_cast<std::size_t>(at->position()));
    tags.push_back({fmt::format("{}:{}", source.path, line), (*at)[1], (*at)[2]});
  }
  return tags;
}

std::vector<std::string> dangling(const std::vector<Source>& sources,
                                  const std::vector<Source>& documents) {
  std::map<std::string, Anchors> anchors;
  for (const Source& document : documents) anchors[document.path] = anchors_of(document.text);
  std::vector<std::string> all;
  for (const Source& source : sources)
    for (const Tag& tag : tags_of(source))
      if (!anchors.contains(tag.document) || !anchors[tag.document].contains(tag.anchor))
        all.push_back(
            fmt::format("{}: {} has no anchor '{}'", tag.place, tag.document, tag.anchor));
  return all;
}

/// The links of a document to other files of the repository, and within itself.
std::vector<Tag> links_of(const Source& document) {
  static const std::regex link{"\\]\\(([^) #\\n]*)#?([^) \\n]*)\\)"};
  const auto folder = std::filesystem::path{document.path}.parent_path();
  std::vector<Tag> links;
  const std::string& text = document.text;
  for (std::sregex_iterator at{text.begin(), text.end(), link}, end; at != end; ++at) {
    const std::string to = (*at)[1];
    if (to.find(':') != std::string::npos) continue;  // elsewhere
    const int line = line_of(text, static_cast<std::size_t>(at->position()));
    std::string path = to.empty() ? document.path : (folder / to).lexically_normal().string();
    if (path.ends_with('/')) path.pop_back();
    links.push_back({fmt::format("{}:{}", document.path, line), path, (*at)[2]});
  }
  return links;
}

/// Documents among `files` whose links lead to none of them, or to a heading that is not there.
std::vector<std::string> broken_links(const std::vector<Source>& files) {
  std::map<std::string, const Source*> by_path;
  for (const Source& file : files) by_path[file.path] = &file;
  std::vector<std::string> all;
  for (const Source& document : files) {
    if (!document.path.ends_with(".md")) continue;
    for (const Tag& link : links_of(document)) {
      const auto found = by_path.find(link.document);
      const auto inside = by_path.lower_bound(link.document + "/");
      const bool is_folder =
          inside != by_path.end() && inside->first.starts_with(link.document + "/");
      if (found == by_path.end() && !is_folder)
        all.push_back(fmt::format("{}: there is no {}", link.place, link.document));
      else if (!link.anchor.empty() &&
               (is_folder || !anchors_of(found->second->text).contains(link.anchor)))
        all.push_back(
            fmt::format("{}: {} has no anchor '{}'", link.place, link.document, link.anchor));
    }
  }
  return all;
}

TEST(DocumentLinks, LeadSomewhere) {
  EXPECT_THAT(broken_links(files_of_repository({""})), IsEmpty());
}

TEST(DocumentLinks, ThatAreBrokenAreFound) {
  EXPECT_THAT(broken_links({{"README.md",
                             "[a](docs/a.md#heading) [b](docs/a.md#gone) [c](#top)\n"
                             "[d](docs/d.md) [d](docs/a) [e](https://x.org/y) [f](docs)\n# Top\n"},
                            {"docs/a.md", "# Heading\n[back](../README.md)"}}),
              ElementsAre("README.md:1: docs/a.md has no anchor 'gone'",
                          "README.md:2: there is no docs/d.md", "README.md:2: there is no docs/a"));
}

TEST(MeasuredAnchors, ExistInTheirDocuments) {
  const auto documents = files_of_repository({".md"});
  auto sources = files_of_repository({".hpp", ".cpp", ".h", ".cu", ".cuh"});
  std::erase_if(sources,
                [](const Source& source) { return source.path.starts_with("tests/layering/"); });
  ASSERT_GT(documents.size(), 3U);
  ASSERT_GT(sources.size(), 200U);
  EXPECT_THAT(dangling(sources, documents), IsEmpty());
}

TEST(MeasuredAnchors, AreHeadingsOrIds) {
  const std::vector<Source> documents = {
      {"docs/a.md", "# A heading: with `code`, and 64 MiB\n<a id=\"named\"></a>\n"}};
  const std::vector<Source> sources = {{"x.cpp",
                                        "// measured: docs/a.md#a-heading-with-code-and-64-mib\n"
                                        "// measured: docs/a.md#named\n"
                                        "// measured: docs/a.md#gone\n"
                                        "// measured: docs/b.md#named\n"
                                        "// As measured: twice as fast.\n"}};
  EXPECT_THAT(dangling(sources, documents),
              ElementsAre("x.cpp:3: docs/a.md has no anchor 'gone'",
                          "x.cpp:4: docs/b.md has no anchor 'named'"));
}

}  // namespace
}  // namespace capstan::layering
