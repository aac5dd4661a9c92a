#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "perf/measure/measure.hpp"

namespace capstan::perf {

/// The table's head and lines, columns as in nccl-tests.
std::string table_head(Collective collective, int ranks, const std::string& where);
std::string table_line(const Measurement& measurement);

/// The same facts by name; times in microseconds, bandwidths in GB/s.
nlohmann::json to_json(const Measurement& measurement);

}  // namespace capstan::perf
