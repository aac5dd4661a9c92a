// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/explain/question.hpp"

#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmath>
#include <utility>

#include "capstan/error.hpp"
#include "core/communicator/checked_call.hpp"
#include "core/engine/run/engine.hpp"
#include "core/platform/memory/huge_pages.hpp"
#include "core/profiles/find_profile.hpp"
#include "perf/measure/cell.hpp"
#include "topology/machine.hpp"

namespace capstan::cli {
namespace {

/// Whether the system lets this process read memory by the call with which ranks read each other's.
bool reads_memory() {
  char from = 1, to = 0;
  const iovec local{&to, 1}, remote{&from, 1};
  return ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == 1;
}

/// The refusal of the plan that rank 0 would make; empty where it runs.
std::string refusal_of(const Question& question, const Choice& choice) {
  const MachineView machine = with_chunk_of(question.settings, question.machine);
  const SegmentLayout layout = segment_layout(question.hosts(), machine, question.settings);
  const PlanCache plans{question.selection,
                        {.layout = layout.slots(),
                         .limits = plan_limits(machine),
                         .proofs = proofs_of(question.settings)},
                        {}};
  return plans.refusal(question.call, choice);
}

}  // namespace

Survey Question::proven_answer() const {
  Survey survey = answer();
  if (devices()) return survey;
  if (std::string refusal = refusal_of(*this, survey.decision.choice); !refusal.empty())
    survey.set_refusal(std::move(refusal));
  return survey;
}

MachineView expected_machine(const Hosts& hosts, const Settings& settings) {
  const Machine machine = Machine::discover();
  const int each = hosts.most_on_a_host();
  const std::size_t cores = machine.processing_units().size();
  const bool shares = cores < static_cast<std::size_t>(each);
  const bool reads = hosts.single() && reads_memory();
  ProfileContent profile =
      content_of(find_profile(settings.profile, machine), std::string{word_for(settings.network)});
  return {.hosts = hosts,
          .network = settings.network,
          .shares_cores = shares,
          .cores = shares ? each / std::ceil(each / static_cast<double>(cores)) : 1,
          .chunk = chunk_bytes_for(machine, each),
          .reads_peers = reads,
          .huge_pages = reads && settings.huge_pages && can_collapse_pages(),
          .autotunes = settings.autotune && settings.algorithm.empty() && hosts.single(),
          .cached_buffers = cached_buffers(machine, each),
          .profile = std::move(profile),
          .oversubscribed = shares};
}

std::vector<std::string> collectives_of_one_length() {
  std::vector<std::string> names;
  for (const Collective collective : all_collectives())
    if (!has_counts(collective)) names.emplace_back(name_of(collective));
  return names;
}

Call make_call(Collective collective, DataType type, ReduceOp op, int root, Bytes bytes,
               int ranks) {
  if (const std::string why = why_undefined(collective, type, op); !why.empty())
    throw InvalidArgument(fmt::format("{}: {}", name_of(collective), why));
  const perf::Cell cell = perf::cell_of(collective, type, op, bytes, ranks);
  Call call{.collective = collective, .type = type, .op = op, .shape = cell.shape};
  call.shape.root = root;
  return call;
}

}  // namespace capstan::cli
