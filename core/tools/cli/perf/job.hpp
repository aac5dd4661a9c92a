// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/bootstrap/launchers/launch.hpp"
#include "core/tools/cli/perf/cells.hpp"
#include "perf/measure/table.hpp"

namespace capstan {
struct Algorithm;
}

namespace capstan::cli {

/// Built-in algorithms, and those of CAPSTAN_SCHEDULES; for AlgorithmRules::parse().
const Algorithm* name_is_known(Collective collective, std::string_view name);

/// Throws where a file that the options name could not be written.
void check_files(const PerfOptions& options);

/// The rules of --algorithm, one for each collective. Throws InvalidArgument for bad ones.
std::string rules_of(const PerfOptions& options);

/// The communicator of one rank of `capstan perf`, which is bound to a core of its own unless the
/// launcher has bound it.
Communicator join_job(const PerfOptions& options, const Launch& launch);

/// Runs `rank` in as many threads of this process as --threads says, each of which is a rank with
/// a core of its own; the greatest exit status. Throws what the first of them has thrown.
int run_threads(const PerfOptions& options,
                const std::function<int(const Launch& launch, Communicator world)>& rank);

/// Prints lines that begin with #: in a document they are a list.
void print_comment(perf::TableFormat format, std::string text);
void print_table_head(perf::TableFormat format, const perf::Table& table);
/// A line for people may have another one, of doubts, that is long.
void print_line(const std::string& line);

}  // namespace capstan::cli
