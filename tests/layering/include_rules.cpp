// SPDX-License-Identifier: Apache-2.0
#include "tests/layering/include_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

namespace capstan::layering {
namespace {

struct Line {
  std::string place;  ///< "core/engine/includes.rules:7"
  std::string folder;
  std::string text;
};

/// The lines of a file, those that continue joined, without comments.
std::vector<Line> lines_of(const Source& file) {
  const std::string folder = file.path.substr(0, file.path.rfind('/'));
  std::vector<Line> lines;
  std::istringstream text(file.text);
  std::string line;
  bool continues = false;
  for (int number = 1; std::getline(text, line); ++number) {
    if (!continues) lines.push_back({fmt::format("{}:{}", file.path, number), folder, ""});
    continues = line.ends_with('\\');
    if (continues) line.pop_back();
    if (!line.starts_with('#')) lines.back().text += line;
  }
  std::erase_if(lines, [](const Line& each) { return each.text.empty(); });
  return lines;
}

Names words_of(const std::string& text) {
  std::istringstream words(text);
  Names found;
  for (std::string word; words >> word;) found.push_back(word);
  return found;
}

[[noreturn]] void refuse(const Line& line, std::string_view what) {
  throw std::invalid_argument(fmt::format("{}: {}", line.place, what));
}

class Parser {
 public:
  explicit Parser(const std::vector<Source>& files) {
    for (const Source& file : files)
      for (Line& line : lines_of(file))
        line.text.starts_with("set ") ? read_set(line) : lines_.push_back(std::move(line));
  }

  std::vector<Rule> rules() const {
    std::vector<Rule> all;
    for (const Line& line : lines_)
      for (Rule& rule : rules_of(line)) all.push_back(std::move(rule));
    return all;
  }

 private:
  void read_set(const Line& line) {
    const Names words = words_of(line.text);
    if (words.size() < 4 || words[2] != "=") refuse(line, "a set is: set NAME = FOLDER ...");
    if (!sets_.emplace(words[1], Names(words.begin() + 3, words.end())).second)
      refuse(line, fmt::format("there is a set {} already", words[1]));
  }

  const Names& set(const Line& line, const std::string& name) const {
    const auto found = sets_.find(name.substr(1));
    if (found == sets_.end()) refuse(line, fmt::format("there is no set {}", name));
    return found->second;
  }

  Names expanded(const Line& line, const std::string& text) const {
    Names all;
    for (const std::string& word : words_of(text))
      if (word.starts_with('@'))
        std::ranges::copy(set(line, word), std::back_inserter(all));
      else
        all.push_back(word);
    return all;
  }

  std::vector<Rule> rules_of(const Line& line) const {
    const auto colon = line.text.find(':');
    if (colon == std::string::npos)
      refuse(line, "a rule is: FOLDER [pure]: FOLDER ... | LIBRARY ...");
    const Names head = words_of(line.text.substr(0, colon));
    const std::string others = line.text.substr(colon + 1);
    const auto bar = std::min(others.find('|'), others.size());
    Rule rule{"", expanded(line, others.substr(0, bar)),
              words_of(others.substr(std::min(bar + 1, others.size())))};
    if (head.size() == 2 && head[0] == "each") return same_for_each(set(line, head[1]), rule);
    rule.pure = head.size() == 2 && head[1] == "pure";
    if (head.size() != (rule.pure ? 2 : 1)) refuse(line, "one folder is named before the colon");
    rule.folder = head[0] == "." ? line.folder : line.folder + "/" + head[0];
    return {rule};
  }

  static std::vector<Rule> same_for_each(const Names& folders, const Rule& rule) {
    std::vector<Rule> all(folders.size(), rule);
    for (std::size_t i = 0; i < all.size(); ++i) all[i].folder = folders[i];
    return all;
  }

  std::map<std::string, Names> sets_;
  std::vector<Line> lines_;
};

const std::set<std::string_view> impure_headers = {
    "atomic",  "barrier",    "chrono",       "condition_variable",
    "csetjmp", "csignal",    "cstdio",       "ctime",
    "cstdlib", "filesystem", "fstream",      "future",
    "iomanip", "ios",        "iostream",     "istream",
    "latch",   "locale",     "mutex",        "ostream",
    "random",  "semaphore",  "shared_mutex", "stop_token",
    "thread",  "syncstream"};

}  // namespace

std::vector<Rule> parse_rules(const std::vector<Source>& files) {
  return Parser{files}.rules();
}

const std::vector<Rule>& rules() {
  static const std::vector<Rule> all = parse_rules(files_of_repository({"includes.rules"}));
  return all;
}

bool is_known_library(std::string_view name) {
  return std::ranges::any_of(rules(), [&](const Rule& rule) {
    return std::ranges::find(rule.libraries, name) != rule.libraries.end();
  });
}

bool is_impure(std::string_view header) {
  return impure_headers.contains(header) || header.ends_with(".h");
}

}  // namespace capstan::layering
