// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/ps/flight_record.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <numeric>
#include <string_view>

#include "capstan/error.hpp"
#include "core/tools/cli/ps/pickle.hpp"

namespace capstan::cli {
namespace {

using nlohmann::json;

/// The name that PyTorch's analyser knows; empty: it knows none.
std::string_view pytorch_name_of(const Call& call) {
  if (call.purpose == Purpose::split) return "split";
  if (call.purpose != Purpose::caller) return "";
  switch (call.collective) {
    case Collective::scan:
    case Collective::exscan:
      return "";
    case Collective::gather_v:
      return "gather";
    case Collective::scatter_v:
      return "scatter";
    case Collective::all_to_all_v:
      return "all_to_all_v_single";
    default:
      return name_of(call.collective);
  }
}

/// PyTorch has one tensor for both on every rank, where only the root has an input or an output.
bool has_one_buffer(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce;
}

/// A list of the lengths of one tensor; without lengths where the record of a call has none.
json tensor_of(Elements count, bool known) {
  json tensor = json::array();
  if (known) tensor.push_back(count.value());
  return json::array({tensor});
}

/// Empty for a call that has no name.
json entry_of(const SeenCall& seen, const SeenRank& rank, int ranks) {
  const auto call = call_of(seen.mark);
  const std::string_view name = call ? pytorch_name_of(*call) : "";
  if (name.empty()) return {};
  const bool known = !has_counts(call->collective) && call->collective != Collective::barrier &&
                     call->purpose == Purpose::caller;
  BufferLengths lengths{};
  if (known) lengths = call->contract(ranks).lengths(rank.rank);
  if (has_one_buffer(call->collective)) lengths = {call->shape.count, call->shape.count};
  const json types = json::array({name_of(call->type)});
  return {{"record_id", seen.number},
          {"pg_id", 0},
          {"process_group", {"0", "world"}},
          {"collective_seq_id", seen.number},
          {"p2p_seq_id", 0},
          {"op_id", seen.number},
          {"profiling_name", fmt::format("nccl:{}", name)},  // one of the backends that it knows
          {"time_created_ns", 0},
          {"input_sizes", tensor_of(lengths.input, known)},
          {"input_dtypes", types},
          {"output_sizes", tensor_of(lengths.output, known)},
          {"output_dtypes", types},
          {"state", seen.number <= rank.finished ? "completed" : "started"},
          {"is_p2p", false},
          {"retired", seen.number <= rank.finished},
          {"frames", json::array()},
          {"capstan_call", to_string(seen.mark)}};
}

json record_of(const SeenRank& rank, const SeenJob& job) {
  json entries = json::array();
  for (const SeenCall& call : rank.calls)
    if (json entry = entry_of(call, rank, job.ranks); !entry.is_null())
      entries.push_back(std::move(entry));
  std::vector<int> members(static_cast<std::size_t>(job.ranks));
  std::iota(members.begin(), members.end(), 0);
  const json world{
      {"name", "0"}, {"desc", "world"}, {"ranks", fmt::format("[{}]", fmt::join(members, ", "))}};
  return {{"version", "2.10"},           {"pg_config", {{"0", world}}},
          {"pg_status", json::object()}, {"entries", std::move(entries)},
          {"rank", rank.rank},           {"capstan_verdict", job.verdict}};
}

}  // namespace

void write_flight_records(const SeenJob& job, const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  for (const SeenRank& rank : job.here) {
    const auto path = folder / fmt::format("capstan_trace_rank_{}", rank.rank);
    std::ofstream file{path, std::ios::binary};
    file << to_pickle(record_of(rank, job));
    file.close();
    if (!file)
      throw SystemError(
          fmt::format("{} cannot be written: give a folder where it can, by "
                      "--flight-record FOLDER",
                      path.native()));
  }
}

}  // namespace capstan::cli
