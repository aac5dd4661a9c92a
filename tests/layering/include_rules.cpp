// SPDX-License-Identifier: Apache-2.0
#include "tests/layering/include_rules.hpp"

#include <algorithm>
#include <set>

namespace capstan::layering {
namespace {

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

}  // namespace

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

bool is_known_library(std::string_view name) {
  return known_libraries.contains(name);
}

bool is_impure(std::string_view header) {
  return impure_headers.contains(header) || header.ends_with(".h");
}

}  // namespace capstan::layering
