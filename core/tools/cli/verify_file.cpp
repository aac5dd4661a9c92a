// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/verify_file.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "capstan/error.hpp"
#include "core/platform/net/text_of_file.hpp"
#include "core/schedule/interchange/formats.hpp"
#include "core/schedule/interchange/prove_set.hpp"
#include "core/tools/cli/options.hpp"
#include "perf/measure/folded.hpp"

namespace capstan::cli {

bool is_schedule_file(const std::string& word) {
  std::error_code ignored;
  return word != "all" && !collective_named(word) && std::filesystem::exists(word, ignored);
}

int verify_file(const std::string& path, const std::string& json) {
  const ScheduleSet set = schedule_set_from_json(text_of_file(path), path);
  const AlgorithmProof proof = prove_set(set);
  write_json(json, {{"file", path},
                    {"collective", name_of(set.collective)},
                    {"algorithm", set.algorithm},
                    {"ranks", set.schedules.size()},
                    {"proofs", proof.proofs},
                    {"ok", proof.ok()},
                    {"same_sums", proof.same_sums},
                    {"left_fold", reduces(set.collective) && proof.left_fold},
                    {"rank_ordered_sum", reduces(set.collective) && proof.rank_ordered_sum},
                    {"findings", proof.texts()}});
  if (!prints_text(json)) return proof.ok() ? 0 : 1;
  perf::print_folded("{}: {}: {}, {} proofs\n", path, title_of(set),
                     proof.ok() ? "proven" : "REFUSED", proof.proofs);
  for (const std::string& finding : proof.texts()) perf::print_folded("    {}\n", finding);
  if (proof.ok() && !proof.same_sums)
    perf::print_folded(
        "    ranks add in different orders, so that floating-point results may differ in their "
        "last "
        "bits:\n    such sums are refused unless CAPSTAN_REPRODUCIBLE=none\n");
  if (proof.ok() && reduces(set.collective))
    perf::print_folded("    its sums are {}: see docs/reproducibility.md\n",
                       proof.rank_ordered_sum ? "reproducible"
                       : proof.left_fold      ? "reproducible for numbers of 32 bits and more"
                                              : "not reproducible");
  return proof.ok() ? 0 : 1;
}

}  // namespace capstan::cli
