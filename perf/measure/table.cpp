// SPDX-License-Identifier: Apache-2.0
#include "perf/measure/table.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace capstan::perf {
namespace {

constexpr int unlimited = 1 << 20;

int length_of(const std::vector<Column>& columns, const std::vector<bool>& shown) {
  int length = 0;
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (shown[i]) length += columns[i].width + 1;
  return length - 1;
}

/// The shown column that leaves first; none that may leave: the end.
std::size_t next_to_leave(const std::vector<Column>& columns, const std::vector<bool>& shown) {
  std::size_t found = columns.size();
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (shown[i] && columns[i].leaves_at > 0 &&
        (found == columns.size() || columns[i].leaves_at > columns[found].leaves_at))
      found = i;
  return found;
}

}  // namespace

int line_width() {
  if (const char* const columns = std::getenv("COLUMNS"))
    if (const int width = std::atoi(columns); width > 0) return width;
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                           : unlimited;
}

Table::Table(std::vector<Column> columns, int width, TableFormat format)
    : columns_(std::move(columns)), shown_(columns_.size(), true), format_(format) {
  while (format == TableFormat::text && length_of(columns_, shown_) > width) {
    const std::size_t leaves = next_to_leave(columns_, shown_);
    if (leaves == columns_.size()) break;
    shown_[leaves] = false;
  }
}

std::string Table::joined(const std::vector<std::string>& values, bool comment) const {
  std::string line = comment ? "#" : "";
  bool first = true;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (!shown_[i]) continue;
    const int width = columns_[i].width - (first && comment ? 1 : 0);
    line += fmt::format("{}{:>{}}", first ? "" : " ", values[i], width);
    first = false;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

/// "a,b" or "| a | b |".
std::string Table::separated(const std::vector<std::string>& values) const {
  const bool csv = format_ == TableFormat::csv;
  std::string line;
  for (const std::string& value : values) {
    const bool quoted = csv && value.find_first_of(",\"\n") != value.npos;
    if (csv) line += line.empty() ? "" : ",";
    line += csv ? (quoted ? fmt::format("\"{}\"", value) : value) : fmt::format("| {} ", value);
  }
  return line + (csv ? "\n" : "|\n");
}

std::string Table::head() const {
  std::vector<std::string> names, units;
  if (format_ != TableFormat::text) {
    for (const Column& column : columns_)
      names.push_back(column.unit.empty() ? column.name : column.name + " " + column.unit);
    names.emplace_back("doubts");
    if (format_ == TableFormat::csv) return separated(names);
    return separated(names) + separated(std::vector<std::string>(names.size(), "---:"));
  }
  for (const Column& column : columns_) names.push_back(column.name), units.push_back(column.unit);
  return joined(names, true) + joined(units, true);
}

std::string Table::names(const std::string& behind) const {
  std::vector<std::string> names;
  for (const Column& column : columns_)
    names.push_back(column.name.starts_with(' ') ? fmt::format("{:<{}}", column.name, column.width)
                                                 : column.name);
  std::string line = joined(names, false);
  line.pop_back();
  return line + behind + "\n";
}

std::string Table::line(std::vector<std::string> values, const std::string& doubts) const {
  values.resize(columns_.size(), "-");
  if (format_ == TableFormat::text)
    return joined(values, false) + (doubts.empty() ? "" : fmt::format("#! {}\n", doubts));
  values.push_back(doubts);
  return separated(values);
}

std::string Table::left_out() const {
  std::string names;
  for (std::size_t i = 0; i < columns_.size(); ++i)
    if (!shown_[i]) names += (names.empty() ? "" : ", ") + columns_[i].name;
  return names;
}

}  // namespace capstan::perf
