// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "capstan/error.hpp"
#include "transports/ofi/ofi_transport.hpp"
#include "transports/ofi/survey.hpp"

namespace capstan {
namespace {

std::string line_of(const ofi::Candidate& candidate) {
  std::string line = ofi::describe(candidate);
  if (candidate.remote_writes) line += ", remote writes";
  if (candidate.device_memory) line += ", device memory";
  if (candidate.gigabits > 0) line += fmt::format(", {:.0f} Gbit/s", candidate.gigabits);
  return line;
}

}  // namespace

bool ofi_is_built_in() {
  return true;
}

OfiReport ofi_report(const OfiOptions& options) {
  OfiReport report;
  try {
    report.version = Libfabric::get().version();
    const ofi::Survey survey = ofi::survey(options);
    report.reason = survey.choice.reason;
    std::vector<bool> listed(survey.candidates.size());
    const auto list = [&](std::size_t i) {
      if (!listed[i]) report.found.push_back(line_of(survey.candidates[i]));
      listed[i] = true;
    };
    for (const std::size_t i : survey.choice.ranking) list(i);
    for (std::size_t i = 0; i < listed.size(); ++i) list(i);
    report.available = !survey.choice.ranking.empty();
    if (report.available)
      report.chosen = ofi::describe(survey.candidates[survey.choice.ranking[0]]);
  } catch (const Error& error) {
    report.reason = error.what();
  }
  return report;
}

}  // namespace capstan
