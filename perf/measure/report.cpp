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
  return text + unusual_calls(options.calls);
}

std::string unusual_calls(const CallOptions& options) {
  std::string text;
  if (options.form == Calling::fused)
    text += fmt::format(", {} buffers in one fused call, times per buffer", options.many);
  else if (options.many > 1)
    text += fmt::format(", {} calls at once, times per call", options.many);
  else if (options.form == Calling::started)
    text += ", by the start_ form";
  if (options.off_cache) text += ", buffers that no cache has";
  if (options.offset > 0) text += fmt::format(", {} elements off a page", options.offset);
  return text;
}

nlohmann::json conditions_of(const MeasureOptions& options) {
  return {{"bound_to_cores", options.bind},
          {"buffers", name_of(options.buffers)},
          {"skew_us", std::chrono::duration_cast<std::chrono::microseconds>(options.skew).count()},
          {"form", name_of(options.calls.form)},
          {"buffers_per_call", options.calls.many},
          {"off_cache", options.calls.off_cache},
          {"offset_elements", options.calls.offset},
          {"groups", options.groups}};
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

using M = Measurement;

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

namespace {

using Field = MeasurementsTable::Field;

std::string number(double value) {
  return fmt::format("{:.2f}", value);
}

Field of_overlap(const char* name, const char* unit, int leaves_at, double Overlap::* value,
                 double times = 1) {
  return {{name, unit, 8, leaves_at}, [value, times](const Measurement& m) {
            return m.overlap ? number(times * (*m.overlap.*value)) : "-";
          }};
}

/// The columns of every table. What differs between lines stays.
std::vector<Field> usual_fields(const std::vector<Cell>& cells) {
  const auto root = [](const Measurement& m) {
    return has_root(m.cell.collective) ? fmt::to_string(m.cell.shape.root) : "-";
  };
  const bool one_root = std::ranges::all_of(
      cells, [&](const Cell& c) { return c.shape.root == cells[0].shape.root; });
  const int type = same(cells, &Cell::type) ? 19 : 0, op = same(cells, &Cell::op) ? 18 : 0;
  std::vector<Field> fields;
  if (!same(cells, &Cell::collective))
    fields.push_back({{"collective", "", 16},
                      [](const M& m) { return std::string{name_of(m.cell.collective)}; }});
  if (!one_root) fields.push_back({{"root", "", 4}, root});
  const std::vector<Field> always{
      {{"size", "(bytes)", 11}, [](const M& m) { return fmt::to_string(m.bytes().value()); }},
      {{"count", "(elements)", 11, 17},
       [](const M& m) { return fmt::to_string(m.cell.contract(m.ranks).typical_count().value()); }},
      {{"type", "", 4, type}, [](const M& m) { return std::string{name_of(m.cell.type)}; }},
      {{"op", "", 7, op},
       [](const M& m) {
         return std::string{reduces(m.cell.collective) ? name_of(m.cell.op) : "-"};
       }},
      {{"algorithm", "", 18, 12}, [](const M& m) { return m.algorithm; }},
      {{"by", "", 7, 14}, [](const M& m) { return std::string{m.decided_by()}; }},
      {{"time", "(us)", 9}, [](const M& m) { return number(m.median); }},
      {{"min", "(us)", 9, 16}, [](const M& m) { return number(m.least); }},
      {{"spread", "(%)", 6, 11}, [](const M& m) { return fmt::format("{:.1f}", 100 * m.spread); }},
      {{"alone", "(us)", 9, 13}, [](const M& m) { return m.alone > 0 ? number(m.alone) : "-"; }},
      {{"algbw", "(GB/s)", 6, 15}, [](const M& m) { return number(m.algorithm_bandwidth()); }},
      {{"busbw", "(GB/s)", 6}, [](const M& m) { return number(m.bus_bandwidth()); }}};
  fields.insert(fields.end(), always.begin(), always.end());
  return fields;
}

/// Columns that were asked for leave a narrow line after all others.
std::vector<Field> fields_of(const std::vector<Cell>& cells, const TableOptions& options) {
  std::vector<Field> fields = usual_fields(cells);
  if (options.both_places) {
    fields.push_back({{"in place", "(us)", 9}, [](const M& m) { return number(m.median); }, 1});
    fields.push_back(
        {{"busbw", "in pl.", 6}, [](const M& m) { return number(m.bus_bandwidth()); }, 1});
  }
  const std::vector<Column> of_calls = distribution_columns();
  for (std::size_t i = 0; i < of_calls.size() && options.percentiles; ++i)
    fields.push_back({of_calls[i], [value = distribution_values[i]](const M& m) {
                        return m.distribution ? number(*m.distribution.*value) : "-";
                      }});
  if (options.overlap)
    for (Field& each : std::vector<Field>{of_overlap("overlap", "(%)", 0, &Overlap::share, 100),
                                          of_overlap("start", "(us)", 1, &Overlap::start),
                                          of_overlap("computed", "(us)", 8, &Overlap::computed),
                                          of_overlap("both", "(us)", 7, &Overlap::both)})
      fields.push_back(std::move(each));
  if (options.timestamps) fields.push_back({{"ended", "", 19}, [](const M& m) { return m.ended; }});
  return fields;
}

std::vector<Column> columns_of(const std::vector<Field>& fields) {
  std::vector<Column> columns;
  for (const Field& each : fields) columns.push_back(each.column);
  return columns;
}

}  // namespace

MeasurementsTable::MeasurementsTable(const std::vector<Cell>& cells, const TableOptions& options)
    : fields_(fields_of(cells, options)),
      table_(columns_of(fields_), options.width, options.format) {}

std::string MeasurementsTable::line(std::span<const Measurement> places) const {
  std::vector<std::string> values;
  for (const Field& each : fields_)
    values.push_back(each.place < places.size() ? each.value(places[each.place]) : "-");
  std::string doubts = doubts_about_cell(places.front());
  for (const Measurement& in_place : places.subspan(1))
    if (const std::string more = doubts_about_cell(in_place); !more.empty())
      doubts += (doubts.empty() ? "in place: " : "; in place: ") + more;
  return table_.line(std::move(values), doubts);
}

std::string conditions_of(const Table& table, const std::vector<Cell>& cells,
                          const std::string& ranks, const std::string& where) {
  const Cell& any = cells.front();
  const bool one = same(cells, &Cell::collective);
  std::string text = fmt::format("# {} over {} ({})\n# ",
                                 one ? name_of(any.collective) : "collectives", ranks, where);
  if (same(cells, &Cell::type) && cells.back().collective != Collective::barrier)
    text += fmt::format("{}, ", name_of(any.type));
  if (same(cells, &Cell::op) &&
      std::ranges::any_of(cells, [](const Cell& each) { return reduces(each.collective); }))
    text += fmt::format("{}, ", name_of(any.op));
  text += "times of the slowest rank, per call\n";
  if (const std::string names = table.left_out(); !names.empty())
    text += fmt::format("# in wider lines and --json also: {}\n", names);
  return text;
}

nlohmann::json to_json(const MachineState& state) {
  return {
      {"busy", state.busy()},   {"text", state.text()},         {"load", state.load},
      {"others", state.others}, {"stolen", state.stolen},       {"waited", state.waited},
      {"slowed", state.slowed}, {"throttled", state.throttled}, {"pushed_off", state.pushed_off},
      {"moved", state.moved}};
}

nlohmann::json to_json(const Measurement& m) {
  nlohmann::json json{{"collective", name_of(m.cell.collective)},
                      {"ranks", m.ranks},
                      {"bytes", m.bytes().value()},
                      {"count", m.cell.contract(m.ranks).typical_count().value()},
                      {"root", m.cell.shape.root},
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
  if (m.cycle > 0) json["cycle"] = m.cycle;
  if (!m.ended.empty()) json["ended"] = m.ended;
  if (m.distribution) json["single_calls"] = to_json(*m.distribution);
  if (m.overlap)
    json["overlap"] = {{"share", m.overlap->share},
                       {"start_us", m.overlap->start},
                       {"computed_us", m.overlap->computed},
                       {"both_us", m.overlap->both}};
  return json;
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
