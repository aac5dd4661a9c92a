// SPDX-License-Identifier: Apache-2.0
#include "tests/layering/include_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

namespace capstan::layering {
namespace {

using Names = std::vector<std::string_view>;

/// The headers that files below `folder` may include besides the standard library and each other.
/// "transports/*" is one layer for each folder in transports, none of which knows the others.
struct Rule {
  std::string_view folder;
  Names layers;
  Names libraries;
  bool pure = false;  ///< results depend on arguments only: no clock, I/O, thread or system header
};

Names joined(Names first, const Names& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// Headers that every room may include: types, quantities, errors, and the parts of schedules.
const Names vocabulary = {
    "core/include/capstan/blocks",     "core/include/capstan/by_rank",
    "core/include/capstan/collective", "core/include/capstan/deadline",
    "core/include/capstan/error",      "core/include/capstan/error_code",
    "core/include/capstan/export",     "core/include/capstan/gpu_direct",
    "core/include/capstan/group",      "core/include/capstan/hosts",
    "core/include/capstan/quantity",   "core/include/capstan/schedule",
    "core/include/capstan/span",       "core/include/capstan/store",
    "core/include/capstan/types",      "core/include/capstan/version",
};

/// The parts of a call and its handle: the engine and its users may include them.
const Names requests = {
    "core/include/capstan/custom_algorithm", "core/include/capstan/message",
    "core/include/capstan/message_info",     "core/include/capstan/operation",
    "core/include/capstan/reducer",          "core/include/capstan/request",
    "core/include/capstan/settings",         "core/include/capstan/tensor",
    "core/include/capstan/unique_id",
};

/// The way in for programs. Nothing below core/communicator knows it.
const Names front = {
    "core/include/capstan",
    "core/include/capstan/async",
};

/// The rooms of the engine, each of which may include those before it. What one of them may not
/// include all the same its own rule says.
const Names rooms = {
    "core/schedule/ir",
    "core/schedule/proof",
    "algorithms",
    "kernels",
    "topology",
    "core/platform/net",
    "core/platform/memory",
    "core/platform/device",
    "transports",
    "transports/common",
    "transports/compose",
    "transports/*",
    "core/schedule/lowering",
    "core/schedule/interchange",
    "core/schedule/selection",
    "core/schedule/simulation",
    "core/schedule/custom",
    "core/profiles",
    "core/engine/control",
    "core/engine/messages",
    "core/engine/executor",
    "core/engine/run",
    "core/bootstrap",
    "core/engine/world",
};

Names rooms_until(std::string_view last) {
  const auto end = std::find(rooms.begin(), rooms.end(), last);
  return {rooms.begin(), end};
}

/// Everything that a program of the project may include.
const Names below_cli =
    joined(joined(joined(rooms, vocabulary), joined(requests, front)),
           {"core/communicator", "core/tools/launcher", "core/include/capstan/values",
            "core/extras/values", "core/include/capstan/observe", "core/extras/observe",
            "core/include/capstan/backends", "core/extras/backends", "core/extras/backends/mpi",
            "core/extras/backends/nccl"});

/// `names` and the vocabulary.
Names and_vocabulary(const Names& names) {
  return joined(vocabulary, names);
}

/// The longest folder that matches counts, the first of equals.
const std::vector<Rule>& rules() {
  static const std::vector<Rule> all = [] {
    std::vector<Rule> rules;
    for (const auto& header : vocabulary) rules.push_back({header, vocabulary, {}});
    for (const auto& header : requests) rules.push_back({header, and_vocabulary(requests), {}});
    const std::vector<Rule> others = {
        {"core/include/capstan", and_vocabulary(joined(requests, front)), {}},
        {"core/include/capstan/async", and_vocabulary(joined(requests, front)), {}},
        {"core/base", vocabulary, {"fmt"}, true},
        {"core/schedule/ir", vocabulary, {"fmt"}, true},
        {"core/schedule/proof", and_vocabulary({"core/schedule/ir"}), {"fmt"}, true},
        {"algorithms", and_vocabulary({"core/schedule/ir"}), {"fmt"}, true},
        {"core/schedule/lowering",
         and_vocabulary({"core/schedule/ir", "core/schedule/proof", "algorithms",
                         "core/include/capstan/reducer"}),
         {"fmt"},
         true},
        {"core/schedule/interchange",
         and_vocabulary(
             {"core/schedule/ir", "core/schedule/proof", "algorithms", "core/schedule/lowering"}),
         {"fmt", "nlohmann"},
         true},
        {"core/schedule/selection",
         and_vocabulary({"core/schedule/ir", "algorithms", "core/schedule/lowering"}),
         {"fmt"},
         true},
        {"core/schedule/simulation",
         and_vocabulary({"core/schedule/ir", "algorithms", "core/schedule/lowering"}),
         {"fmt"},
         true},
        {"core/schedule/custom",
         and_vocabulary({"core/include/capstan/custom_algorithm", "core/schedule/ir",
                         "core/schedule/proof", "algorithms", "core/schedule/lowering",
                         "core/schedule/interchange", "core/platform/net"}),
         {"fmt"}},
        {"core/profiles",
         and_vocabulary({"core/schedule/ir", "algorithms", "topology", "core/platform/net",
                         "core/schedule/lowering", "core/schedule/interchange",
                         "core/schedule/selection"}),
         {"fmt", "nlohmann"}},
        {"kernels", and_vocabulary({"core/include/capstan/reducer"}), {"fmt", "hwy"}},
        {"topology", and_vocabulary({"core/platform/net"}), {"fmt", "hwloc", "nlohmann"}},
        {"core/platform/net", vocabulary, {"fmt", "spdlog", "sodium"}},
        {"core/platform/memory", and_vocabulary({"core/platform/net"}), {"fmt"}},
        {"core/platform/device",
         and_vocabulary({"kernels", "core/platform/net", "core/platform/memory"}),
         {"fmt", "rdma"}},
        {"transports", and_vocabulary({"core/platform/net", "core/platform/memory"}), {"fmt"}},
        {"transports/common",
         and_vocabulary(
             {"core/platform/net", "core/platform/memory", "core/platform/device", "transports"}),
         {"fmt"}},
        {"transports/compose",
         and_vocabulary(
             {"core/platform/net", "core/platform/memory", "transports", "transports/common"}),
         {"fmt"}},
        {"transports/*",
         and_vocabulary({"core/platform/net", "core/platform/memory", "core/platform/device",
                         "transports", "transports/common"}),
         {"fmt", "sodium", "infiniband", "rdma"}},
        {"core/engine/control",
         and_vocabulary({"core/platform/net", "core/platform/memory", "core/schedule/lowering",
                         "transports", "transports/common", "transports/*"}),
         {"fmt"}},
        {"core/engine/messages",
         and_vocabulary(
             joined(requests, {"kernels", "core/platform/net", "core/platform/memory",
                               "core/schedule/lowering", "core/engine/control", "transports"})),
         {"fmt"}},
        {"core/engine/executor",
         and_vocabulary({"kernels", "core/platform/net", "core/platform/memory",
                         "core/schedule/lowering", "core/engine/control", "transports"}),
         {"fmt"}},
        {"core/engine/run",
         and_vocabulary(joined(requests, rooms_until("core/engine/run"))),
         {"fmt"}},
        {"core/bootstrap",
         and_vocabulary(joined(requests, {"core/platform/net"})),
         {"fmt", "sodium", "pmix"}},
        {"core/engine/world",
         and_vocabulary(joined(requests, rooms_until("core/engine/world"))),
         {"fmt"}},
        {"core/include/capstan/observe",
         and_vocabulary(joined(joined(requests, front), {"core/include/capstan/backends"})),
         {}},
        {"core/extras/observe",
         and_vocabulary(joined(joined(requests, front),
                               {"core/include/capstan/observe", "core/include/capstan/backends",
                                "core/platform/net", "transports/common"})),
         {"fmt", "nlohmann"}},
        {"core/communicator",
         joined(and_vocabulary(joined(requests, front)),
                joined(rooms, {"core/base", "core/include/capstan/observe"})),
         {"fmt", "nlohmann"}},
        {"core/include/capstan/backends", and_vocabulary(joined(requests, front)), {}},
        {"core/extras/backends",
         and_vocabulary(joined(joined(requests, front), {"core/include/capstan/backends"})),
         {"fmt"}},
        {"core/extras/backends/mpi",
         and_vocabulary(joined(joined(requests, front),
                               {"core/include/capstan/backends", "core/extras/backends"})),
         {"fmt", "mpi"}},
        {"core/extras/backends/nccl",
         and_vocabulary(joined(joined(requests, front),
                               {"core/include/capstan/backends", "core/extras/backends"})),
         {"fmt"}},
        {"core/include/capstan/values", and_vocabulary(joined(requests, front)), {}},
        {"core/extras/values",
         and_vocabulary(
             joined(joined(requests, front), {"core/include/capstan/values", "topology"})),
         {"fmt", "nlohmann", "tbb"}},
        {"core/tools/launcher",
         and_vocabulary(joined(requests, {"core/bootstrap", "core/platform/net", "topology"})),
         {"fmt", "nlohmann"}},
        {"bindings", and_vocabulary(joined(requests, front)), {"fmt"}},
        {"bindings/python",
         joined(and_vocabulary(joined(joined(requests, front), {"core/include/capstan/observe"})),
                {"bindings"}),
         {"fmt", "pybind11", "dlpack"}},
        {"bindings/torch",
         joined(and_vocabulary(joined(requests, front)), {"bindings"}),
         {"fmt", "pybind11", "torch", "ATen", "c10"}},
        {"bindings/*",
         joined(and_vocabulary(joined(requests, front)), {"bindings"}),
         {"fmt", "nlohmann"}},
        {"perf",
         joined(below_cli, {"perf/compare", "perf/measure", "perf/report"}),
         {"fmt", "CLI", "nlohmann", "hwy", "benchmark", "mpi", "gloo", "tbb"}},
        {"scripts/cmake", {}, {"fmt"}},
        {"perf/report", and_vocabulary({"topology"}), {"fmt", "nlohmann"}},
        {"perf/measure", joined(below_cli, {"perf/report"}), {"fmt", "nlohmann"}},
        {"perf/compare",
         joined(below_cli, {"perf/measure", "perf/report", "perf"}),
         {"fmt", "nlohmann", "mpi", "gloo"}},
        {"core/tools/cli",
         joined(below_cli, {"perf/compare", "perf/measure", "perf/report"}),
         {"fmt", "CLI", "nlohmann", "expat"}},
        {"tests",
         joined(below_cli,
                {"core/tools/cli", "perf", "perf/compare", "perf/measure", "perf/report"}),
         {"fmt", "CLI", "nlohmann", "hwy", "hwloc", "sodium", "gtest", "gmock", "rapidcheck", "mpi",
          "infiniband", "rdma"}},
        {"tests/bindings",
         joined(and_vocabulary(joined(requests, front)), {"tests", "bindings/*"}),
         {"fmt", "gtest", "gmock", "capstan"}},
        {"docs", {}, {"capstan"}},
    };
    rules.insert(rules.end(), others.begin(), others.end());
    return rules;
  }();
  return all;
}

const std::set<std::string_view> known_libraries = {
    "fmt",   "spdlog",   "CLI",        "nlohmann",  "hwloc", "hwy",  "sodium", "gtest",
    "gmock", "capstan",  "rapidcheck", "benchmark", "mpi",   "gloo", "pmix",   "infiniband",
    "rdma",  "pybind11", "dlpack",     "tbb",       "torch", "ATen", "c10",    "expat"};

const std::set<std::string_view> impure_headers = {
    "atomic",  "barrier",    "chrono",       "condition_variable",
    "csetjmp", "csignal",    "cstdio",       "ctime",
    "cstdlib", "filesystem", "fstream",      "future",
    "iomanip", "ios",        "iostream",     "istream",
    "latch",   "locale",     "mutex",        "ostream",
    "random",  "semaphore",  "shared_mutex", "stop_token",
    "thread",  "syncstream"};

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
      report(path, 1, "no rule says what this folder may include; add one to include_rules.cpp");
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
    if (known_libraries.contains(library)) {
      if (!contains(layer.rule->libraries, library)) {
        report(path, include.line,
               fmt::format("{} must not use the library {}", layer.folder, library));
      }
    } else if (layer.rule->pure &&
               (impure_headers.contains(include.target) || include.target.ends_with(".h"))) {
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
