#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "perf/measure/measure.hpp"

namespace capstan::perf {

/// The head and the lines of the table; columns are those of nccl-tests.
std::string table_head(Collective collective, int ranks, const std::string& where);
std::string table_line(const Measurement& measurement);

/// The same facts as JSON; times in microseconds, bandwidths in GB/s.
nlohmann::json to_json(const Measurement& measurement);

}  // namespace capstan::perf
