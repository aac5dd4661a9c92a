// SPDX-License-Identifier: Apache-2.0
#pragma once

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
/// All conditions, for a JSON document.
nlohmann::json conditions_of(const MeasureOptions& options);

/// The format of JSON documents, which docs/results.schema.json describes.
inline constexpr const char* results_format = "capstan-results-1";

struct TableOptions {
  TableFormat format = TableFormat::text;
  int width = 80;
  bool both_places = false;  ///< lines tell of a cell and of the same cell in place
};

/// Reasons to doubt a measurement: "wrong values: 5; unsteady: spread 70 %"; empty: none.
std::string doubts_about(std::uint64_t wrong, double spread, const MachineState& state);

/// The table of measurements, with columns like those of nccl-tests. Types and operations have
/// columns where they differ, and stand above the table otherwise.
Table measurements_table(const std::vector<Cell>& cells, const TableOptions& options);
/// The facts that all lines have in common, as lines that begin with #.
std::string conditions_of(const Table& table, const std::vector<Cell>& cells, int ranks,
                          const std::string& where);
/// A line of a cell, also in place where there is a second measurement. What casts doubt on it is
/// another line, or the last column.
std::string table_line(const Table& table, std::span<const Measurement> places);

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
