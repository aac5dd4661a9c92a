// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "perf/measure/measure.hpp"
#include "perf/measure/table.hpp"

namespace capstan::perf {

/// "8", "64K", "256M".
std::string short_size(Bytes size);

/// The conditions that differ from the defaults, such as ", ranks not bound to cores", for the line
/// above a table. Empty if none does.
std::string unusual_conditions(const MeasureOptions& options);
/// The manner in which calls are made, as such a text: ", 100 calls at once, times per call".
std::string unusual_calls(const CallOptions& options);
/// All conditions, for a JSON document.
nlohmann::json conditions_of(const MeasureOptions& options);

/// The format of JSON documents, which docs/results.schema.json describes.
inline constexpr const char* results_format = "capstan-results-1";

struct TableOptions {
  TableFormat format = TableFormat::text;
  int width = 80;
  bool both_places = false;  ///< lines tell of a cell and of the same cell in place
  bool percentiles = false;  ///< columns of Measurement::distribution
  bool overlap = false;      ///< columns of Measurement::overlap
  bool timestamps = false;   ///< a column of Measurement::ended
};

/// Reasons to doubt a measurement: "wrong values: 5; unsteady: spread 70 %"; empty: none.
std::string doubts_about(std::uint64_t wrong, double spread, const MachineState& state);

/// The table of measurements, with columns like those of nccl-tests. Collectives, roots, types and
/// operations have columns where they differ, and stand above the table otherwise.
class MeasurementsTable {
 public:
  MeasurementsTable(const std::vector<Cell>& cells, const TableOptions& options);

  const Table& columns() const { return table_; }
  /// A line of a cell, also in place where there is a second measurement. What casts doubt on it is
  /// another line, or the last column.
  std::string line(std::span<const Measurement> places) const;

  struct Field {
    Column column;
    std::function<std::string(const Measurement&)> value;
    std::size_t place = 0;  ///< 1: it tells of the call in place
  };

 private:
  const std::vector<Field> fields_;
  const Table table_;
};

/// The facts that all lines have in common, as lines that begin with #.
std::string conditions_of(const Table& table, const std::vector<Cell>& cells,
                          const std::string& ranks, const std::string& where);

/// The same facts as JSON; times in microseconds, bandwidths in GB/s.
nlohmann::json to_json(const Measurement& measurement);
nlohmann::json to_json(const MachineState& state);

/// Throws SystemError if write_document() could not write this file; an empty name is no file.
/// Leaves no file behind, and changes none.
void check_writable(const std::string& file);

/// Writes a document to a file, or to standard output if its name is "-". It ends with a newline,
/// which is added where it is missing. Throws SystemError.
void write_document(const std::string& file, const std::string& text);

}  // namespace capstan::perf
