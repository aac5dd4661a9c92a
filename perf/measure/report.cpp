// SPDX-License-Identifier: Apache-2.0
#include "perf/measure/report.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "capstan/error.hpp"

namespace capstan::perf {

std::string short_size(Bytes size) {
  const std::uint64_t bytes = size.value();
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{}M", bytes >> 20);
  if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return fmt::format("{}K", bytes >> 10);
  return fmt::to_string(bytes);
}

std::string unusual_conditions(const MeasureOptions& options) {
  std::string text;
  if (!options.bind) text += ", ranks not bound to cores";
  if (options.buffers == Buffers::allocated) text += ", Capstan's buffers allocated by it";
  if (options.skew.count() > 0)
    text +=
        fmt::format(", ranks come to calls that are alone within {} us",
                    std::chrono::duration_cast<std::chrono::microseconds>(options.skew).count());
  return text;
}

nlohmann::json conditions_of(const MeasureOptions& options) {
  return {{"bound_to_cores", options.bind},
          {"buffers", name_of(options.buffers)},
          {"skew_us", std::chrono::duration_cast<std::chrono::microseconds>(options.skew).count()}};
}

namespace {

/// Whether all cells agree in what `fact` says of them.
template <class Fact>
bool same(const std::vector<Cell>& cells, Fact fact) {
  return std::ranges::all_of(cells, [&](const Cell& c) { return c.*fact == cells.front().*fact; });
}

/// Doubts about one line of the table.
std::string doubts_about_cell(const Measurement& m) {
  const std::string text = doubts_about(m.wrong, m.spread, m.state);
  return m.settled ? text : "not settled" + (text.empty() ? "" : "; " + text);
}

}  // namespace

std::string doubts_about(std::uint64_t wrong, double spread, const MachineState& state) {
  std::string text;
  const auto add = [&](bool doubtful, const std::string& why) {
    if (doubtful) text += (text.empty() ? "" : "; ") + why;
  };
  add(wrong > 0, fmt::format("wrong values: {}", wrong));
  add(!is_steady(spread), fmt::format("unsteady: spread {:.0f} %", 100 * spread));
  add(state.busy(), state.text());
  return text;
}

Table measurements_table(const std::vector<Cell>& cells, const TableOptions& options) {
  const int type = same(cells, &Cell::type) ? 9 : 0, op = same(cells, &Cell::op) ? 8 : 0;
  std::vector<Column> columns{
      {"size", "(bytes)", 11}, {"count", "(elements)", 11, 7}, {"type", "", 4, type},
      {"op", "", 7, op},       {"algorithm", "", 18, 2},       {"by", "", 7, 4},
      {"time", "(us)", 9},     {"min", "(us)", 9, 6},          {"spread", "(%)", 6, 1},
      {"alone", "(us)", 9, 3}, {"algbw", "(GB/s)", 6, 5},      {"busbw", "(GB/s)", 6}};
  if (options.both_places)
    columns.insert(columns.end(), {{"in place", "(us)", 9}, {"busbw", "in pl.", 6}});
  return {std::move(columns), options.width, options.format};
}

std::string conditions_of(const Table& table, const std::vector<Cell>& cells, int ranks,
                          const std::string& where) {
  const Cell& any = cells.front();
  std::string text =
      fmt::format("# {} over {} ranks ({})\n# ", name_of(any.collective), ranks, where);
  if (same(cells, &Cell::type) && any.collective != Collective::barrier)
    text += fmt::format("{}, ", name_of(any.type));
  if (same(cells, &Cell::op) && reduces(any.collective))
    text += fmt::format("{}, ", name_of(any.op));
  text += "times of the slowest rank, per call\n";
  if (const std::string names = table.left_out(); !names.empty())
    text += fmt::format("# in wider lines and --json also: {}\n", names);
  return text;
}

std::string table_line(const Table& table, std::span<const Measurement> places) {
  const auto number = [](double value) { return fmt::format("{:.2f}", value); };
  const Measurement& m = places.front();
  std::vector<std::string> values{
      fmt::to_string(m.bytes().value()),
      fmt::to_string(m.cell.contract(m.ranks).typical_count().value()),
      std::string{name_of(m.cell.type)},
      std::string{reduces(m.cell.collective) ? name_of(m.cell.op) : "-"},
      m.algorithm,
      std::string{m.decided_by()},
      number(m.median),
      number(m.least),
      fmt::format("{:.1f}", 100 * m.spread),
      m.alone > 0 ? number(m.alone) : "-",
      number(m.algorithm_bandwidth()),
      number(m.bus_bandwidth())};
  std::string doubts = doubts_about_cell(m);
  for (const Measurement& in_place : places.subspan(1)) {
    values.push_back(number(in_place.median));
    values.push_back(number(in_place.bus_bandwidth()));
    if (const std::string more = doubts_about_cell(in_place); !more.empty())
      doubts += (doubts.empty() ? "in place: " : "; in place: ") + more;
  }
  return table.line(std::move(values), doubts);
}

nlohmann::json to_json(const MachineState& state) {
  return {
      {"busy", state.busy()},   {"text", state.text()},         {"load", state.load},
      {"others", state.others}, {"stolen", state.stolen},       {"waited", state.waited},
      {"slowed", state.slowed}, {"throttled", state.throttled}, {"pushed_off", state.pushed_off},
      {"moved", state.moved}};
}

nlohmann::json to_json(const Measurement& m) {
  return {{"collective", name_of(m.cell.collective)},
          {"ranks", m.ranks},
          {"bytes", m.bytes().value()},
          {"count", m.cell.contract(m.ranks).typical_count().value()},
          {"type", name_of(m.cell.type)},
          {"op", name_of(m.cell.op)},
          {"in_place", m.cell.in_place},
          {"buffers", name_of(m.buffers)},
          {"algorithm", m.algorithm},
          {"explanation", m.explanation},
          {"decided_by", m.decided_by()},
          {"machine", to_json(m.state)},
          {"steady", m.steady()},
          {"times_us", m.times},
          {"times_alone_us", m.times_alone},
          {"median_us", m.median},
          {"min_us", m.least},
          {"spread", m.spread},
          {"alone_us", m.alone},
          {"algbw_gbps", m.algorithm_bandwidth()},
          {"busbw_gbps", m.bus_bandwidth()},
          {"wrong", m.wrong},
          {"calls", m.calls},
          {"settled", m.settled}};
}

namespace {

[[noreturn]] void refuse_file(const std::string& file) {
  throw SystemError(fmt::format("cannot write '{}': check the path", file));
}

/// The target of a chain of symbolic links, which may be missing. A circle leads to one of its
/// links.
std::filesystem::path target_of(std::filesystem::path file) {
  constexpr int most_links = 40;  // as many as Linux follows
  std::error_code ignored;        // opening the file says what is wrong
  for (int i = 0; i < most_links && std::filesystem::is_symlink(file, ignored); ++i)
    file = file.parent_path() / std::filesystem::read_symlink(file, ignored);
  return file;
}

/// Whether it has made a file, and removed it again: the file was missing, and can be written.
bool can_create(const std::filesystem::path& file) {
  const int made = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (made < 0) return false;
  ::close(made);
  ::unlink(file.c_str());
  return true;
}

}  // namespace

void check_writable(const std::string& file) {
  if (file.empty() || file == "-" || can_create(target_of(file))) return;
  std::error_code missing;
  if (!std::filesystem::exists(file, missing) || !std::ofstream{file, std::ios::app})
    refuse_file(file);
}

void write_document(const std::string& file, const std::string& text) {
  const std::string_view end = text.ends_with('\n') ? "" : "\n";
  if (file == "-") {
    fmt::print("{}{}", text, end);
    return;
  }
  std::ofstream out{file};
  out << text << end;
  if (!out.flush()) refuse_file(file);
}

}  // namespace capstan::perf
