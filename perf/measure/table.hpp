// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace capstan::perf {

/// A column of a table. Where a line is too narrow, columns with the greatest `leaves_at` are left
/// out first; those with 0 stay.
struct Column {
  std::string name, unit;
  int width = 0;
  int leaves_at = 0;
};

/// For people, for programs, and for documents.
enum class TableFormat { text, csv, markdown };

/// The width of the terminal, or what COLUMNS says; without both, more than any table needs.
int line_width();

/// A table whose lines are as long as `width` at most, as long as its first columns fit. For
/// programs and documents, all columns are there.
class Table {
 public:
  Table(std::vector<Column> columns, int width, TableFormat format = TableFormat::text);

  /// Names and units: as text two lines, which begin with #.
  std::string head() const;
  /// A line of the names alone, and what stands behind it.
  std::string names(const std::string& behind) const;
  /// A value for each column, also for those that are left out; the last ones may be missing. What
  /// casts doubt on it: as text another line, else the last column.
  std::string line(std::vector<std::string> values, const std::string& doubts = {}) const;
  /// The names that are left out, separated by commas.
  std::string left_out() const;

 private:
  std::string joined(const std::vector<std::string>& values, bool comment) const;
  std::string separated(const std::vector<std::string>& values) const;

  std::vector<Column> columns_;
  std::vector<bool> shown_;
  TableFormat format_;
};

}  // namespace capstan::perf
