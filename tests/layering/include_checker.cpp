// SPDX-License-Identifier: Apache-2.0
#include "tests/layering/include_checker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "tests/layering/include_rules.hpp"

namespace capstan::layering {
namespace {

/// The layer of one file: its rule and the folder that the rule's name stands for.
struct Layer {
  const Rule* rule;
  std::string folder;
};

std::optional<std::string> matched_folder(const Rule& rule, const std::string& path) {
  const bool each = rule.folder.ends_with("/*");
  const auto parent = each ? rule.folder.substr(0, rule.folder.size() - 1) : rule.folder;
  if (!path.starts_with(parent)) return std::nullopt;
  const auto end = each ? path.find('/', parent.size()) : parent.size();
  if (end >= path.size() || (path[end] != '/' && path[end] != '.')) return std::nullopt;
  return path.substr(0, end);
}

std::optional<Layer> layer_of(const std::string& path) {
  std::optional<Layer> longest;
  for (const Rule& rule : rules()) {
    auto folder = matched_folder(rule, path);
    if (folder && (!longest || folder->size() > longest->folder.size())) {
      longest = Layer{&rule, std::move(*folder)};
    }
  }
  return longest;
}

bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// "fmt" for fmt/format.h, "hwloc" for hwloc.h.
std::string_view library_of(std::string_view header) {
  return header.substr(0, header.find_first_of("/."));
}

class Checker {
 public:
  explicit Checker(const std::vector<Source>& sources) {
    for (const auto& source : sources) includes_.emplace(source.path, includes_of(source.text));
  }

  std::vector<std::string> check() {
    for (const auto& [path, includes] : includes_) check_file(path, includes);
    for (const auto& [path, includes] : includes_) look_for_circle(path);
    return std::move(found_);
  }

 private:
  void check_file(const std::string& path, const std::vector<Include>& includes) {
    const auto layer = layer_of(path);
    if (!layer) {
      report(path, 1, "no rule says what this folder may include; add one to includes.rules there");
      return;
    }
    for (const Include& include : includes) {
      include.quoted ? check_quoted(path, *layer, include) : check_angled(path, *layer, include);
    }
  }

  void check_quoted(const std::string& path, const Layer& layer, const Include& include) {
    const auto target = resolve(path, include);
    if (!target) {
      report(path, include.line, fmt::format("there is no \"{}\"", include.target));
      return;
    }
    const auto other = layer_of(*target);
    if (!other || other->folder == layer.folder) return;
    if (!contains(layer.rule->layers, other->rule->folder)) {
      report(path, include.line,
             fmt::format("{} must not know {} (\"{}\")", layer.folder, other->folder, *target));
    }
  }

  void check_angled(const std::string& path, const Layer& layer, const Include& include) {
    const auto library = library_of(include.target);
    if (is_known_library(library)) {
      if (!contains(layer.rule->libraries, library)) {
        report(path, include.line,
               fmt::format("{} must not use the library {}", layer.folder, library));
      }
    } else if (layer.rule->pure && is_impure(include.target)) {
      report(path, include.line,
             fmt::format("{} is pure and must not use <{}>", layer.folder, include.target));
    }
  }

  /// As the compiler looks for it: beside the including file, from the root, among public headers.
  std::optional<std::string> resolve(const std::string& path, const Include& include) const {
    const auto beside = std::filesystem::path(path).parent_path() / include.target;
    for (const auto& candidate :
         {beside.lexically_normal().string(), include.target, "core/include/" + include.target}) {
      if (includes_.contains(candidate)) return candidate;
    }
    return std::nullopt;
  }

  void look_for_circle(const std::string& path) {
    if (done_.contains(path)) return;
    if (const auto start = std::find(trail_.begin(), trail_.end(), path); start != trail_.end()) {
      report(
          path, 1,
          fmt::format("includes itself: {} -> {}", fmt::join(start, trail_.end(), " -> "), path));
      return;
    }
    trail_.push_back(path);
    for (const Include& include : includes_.at(path)) {
      const auto target = include.quoted ? resolve(path, include) : std::nullopt;
      if (target) look_for_circle(*target);
    }
    trail_.pop_back();
    done_.insert(path);
  }

  void report(const std::string& path, int line, const std::string& what) {
    found_.push_back(fmt::format("{}:{}: {}", path, line, what));
  }

  std::map<std::string, std::vector<Include>> includes_;
  std::vector<std::string> found_;
  std::vector<std::string> trail_;
  std::set<std::string> done_;
};

}  // namespace

std::vector<Include> includes_of(const std::string& text) {
  std::vector<Include> found;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::string_view rest = line;
    const auto skip_blanks = [&] {
      rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    };
    const auto eat = [&](std::string_view token) {
      skip_blanks();
      if (!rest.starts_with(token)) return false;
      rest.remove_prefix(token.size());
      return true;
    };
    if (!eat("#") || !eat("include")) continue;
    skip_blanks();
    if (rest.empty() || (rest[0] != '"' && rest[0] != '<')) continue;  // a macro
    const auto end = rest.find(rest[0] == '"' ? '"' : '>', 1);
    if (end == std::string_view::npos) continue;
    found.push_back({std::string(rest.substr(1, end - 1)), rest[0] == '"', number});
  }
  return found;
}

std::vector<std::string> violations(const std::vector<Source>& sources) {
  return Checker(sources).check();
}

}  // namespace capstan::layering
