// SPDX-License-Identifier: Apache-2.0
#include "core/extras/values/recorder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "capstan/values/debug_dag.hpp"
#include "capstan/values/epoch_queue.hpp"
#include "core/extras/values/place.hpp"

namespace capstan::values {
namespace detail {

std::atomic<Recorder*> recorder{nullptr};

namespace {

/// A record of what tasks did with which epochs of which values, as a graph and as a trace.
class Graph final : public Recorder {
 public:
  void epoch(const EpochQueue& queue, std::uint64_t number) override {
    const std::scoped_lock lock{mutex_};
    const NodeInfo info = queue.info();
    note_value(info);
    instant(fmt::format("epoch {} of value {} is written", number, info.index), "epoch");
  }

  void access(std::uint64_t task, const EpochQueue& queue, std::uint64_t epoch,
              bool reads) override {
    const std::scoped_lock lock{mutex_};
    const NodeInfo info = queue.info();
    note_value(info);
    edges_.insert({task, info.index, epoch, reads});
  }

  void woken(std::uint64_t task) override {
    const std::scoped_lock lock{mutex_};
    ++tasks_[task].woken;
    instant(fmt::format("task {} is woken", task), "wake");
    trace_.push_back({{"ph", "s"},
                      {"name", "woken"},
                      {"cat", "wake"},
                      {"id", flows_},
                      {"ts", now()},
                      {"pid", 1},
                      {"tid", this_thread()}});
    tasks_[task].flow = flows_++;
  }

  void run_begins(std::uint64_t task, const std::source_location& where) override {
    const std::scoped_lock lock{mutex_};
    Task& known = tasks_[task];
    if (known.place.empty()) known.place = place_of(where);
    trace_.push_back({{"ph", "B"},
                      {"name", fmt::format("task {}", task)},
                      {"cat", "task"},
                      {"ts", now()},
                      {"pid", 1},
                      {"tid", this_thread()},
                      {"args", {{"at", place_of(where)}}}});
    if (known.flow)
      trace_.push_back({{"ph", "f"},
                        {"bp", "e"},
                        {"name", "woken"},
                        {"cat", "wake"},
                        {"id", *std::exchange(known.flow, std::nullopt)},
                        {"ts", now()},
                        {"pid", 1},
                        {"tid", this_thread()}});
  }

  void run_ends(std::uint64_t) override {
    const std::scoped_lock lock{mutex_};
    trace_.push_back({{"ph", "E"}, {"ts", now()}, {"pid", 1}, {"tid", this_thread()}});
  }

  std::string dot() {
    const std::scoped_lock lock{mutex_};
    std::string text = "digraph values {\n  rankdir=LR;\n";
    std::set<std::pair<std::uint64_t, std::uint64_t>> epochs;
    for (const Edge& edge : edges_) epochs.emplace(edge.value, edge.epoch);
    for (const auto& [index, task] : tasks_)
      text += fmt::format("  t{} [shape=box, label=\"task {}\\n{}\\nwoken {} times\"];\n", index,
                          index, escaped(task.place), task.woken);
    for (const auto& [value, epoch] : epochs)
      text += fmt::format("  v{}_{} [label=\"value {}\\n{}\\nepoch {}\"];\n", value, epoch, value,
                          escaped(values_[value]), epoch);
    for (const auto& [value, epoch] : epochs)
      if (epochs.contains({value, epoch + 1}))
        text += fmt::format("  v{}_{} -> v{}_{} [style=dotted];\n", value, epoch, value, epoch + 1);
    for (const Edge& edge : edges_)
      text += edge.reads ? fmt::format("  v{}_{} -> t{};\n", edge.value, edge.epoch, edge.task)
                         : fmt::format("  t{} -> v{}_{};\n", edge.task, edge.value, edge.epoch);
    return text + "}\n";
  }

  std::string trace() {
    const std::scoped_lock lock{mutex_};
    return nlohmann::json{{"traceEvents", trace_}, {"displayTimeUnit", "ns"}}.dump();
  }

 private:
  struct Task {
    std::string place{};
    int woken = 0;
    std::optional<std::uint64_t> flow{};
  };
  struct Edge {
    std::uint64_t task, value, epoch;
    bool reads;
    auto operator<=>(const Edge&) const = default;
  };

  void note_value(const NodeInfo& info) { values_.emplace(info.index, info.type); }
  void instant(std::string name, const char* category) {
    trace_.push_back({{"ph", "i"},
                      {"s", "t"},
                      {"name", std::move(name)},
                      {"cat", category},
                      {"ts", now()},
                      {"pid", 1},
                      {"tid", this_thread()}});
  }
  /// Microseconds, with fractions, as the format has it.
  double now() const {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin_)
        .count();
  }
  std::size_t this_thread() {
    return threads_.emplace(std::this_thread::get_id(), threads_.size() + 1).first->second;
  }
  static std::string escaped(const std::string& text) {
    std::string result;
    for (const char c : text) {
      if (c == '"' || c == '\\') result += '\\';
      result += c;
    }
    return result;
  }

  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::map<std::uint64_t, Task> tasks_;
  std::map<std::uint64_t, std::string> values_;
  std::set<Edge> edges_;
  std::map<std::thread::id, std::size_t> threads_;
  nlohmann::json trace_ = nlohmann::json::array();
  std::uint64_t flows_ = 0;
};

/// Stays, as tasks may still write to it.
Graph* graph_of_environment = nullptr;

void write_graph_of_environment() {
  const std::string path = std::getenv("CAPSTAN_DEBUG_DAG");
  write_debug_dag(fmt::format("{}.{}", path, getpid()));
}

const bool begun_by_environment = [] {
  const char* const path = std::getenv("CAPSTAN_DEBUG_DAG");
  if (!path || !*path) return false;
  begin_debug_dag();
  std::atexit(write_graph_of_environment);
  return true;
}();

}  // namespace
}  // namespace detail

void begin_debug_dag() {
  // An earlier one stays, as tasks may be writing to it.
  detail::graph_of_environment = new detail::Graph;
  detail::recorder.store(detail::graph_of_environment, std::memory_order_release);
}

void end_debug_dag() {
  detail::recorder.store(nullptr, std::memory_order_release);
}

DebugDag debug_dag() {
  if (!detail::graph_of_environment)
    throw InvalidArgument(
        "there is no graph of tasks: call begin_debug_dag(), or set CAPSTAN_DEBUG_DAG, before");
  return {detail::graph_of_environment->dot(), detail::graph_of_environment->trace()};
}

void write_debug_dag(const std::string& path) {
  const DebugDag dag = debug_dag();
  const auto write = [](const std::string& file, const std::string& text) {
    if (!(std::ofstream{file} << text).flush())
      throw SystemError(
          fmt::format("{} cannot be written: choose another path for the graph", file));
  };
  write(path + ".dot", dag.dot);
  write(path + ".json", dag.trace);
}

}  // namespace capstan::values
