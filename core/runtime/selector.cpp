#include "core/runtime/selector.hpp"

#include <fmt/format.h>

#include <limits>
#include <optional>

#include "core/ir/error.hpp"

namespace capstan {
namespace {

struct Candidate {
  const Algorithm* algorithm = nullptr;
  Form form = Form::flags;
  double nanoseconds = std::numeric_limits<double>::infinity();
};

bool allows(const Algorithm& algorithm, Form form) {
  return algorithm.sends == Sends::outputs ||
         (algorithm.sends == Sends::inputs && form == Form::direct);
}

/// The cheapest form of one algorithm.
Candidate best_form(const Algorithm& algorithm, int ranks, const Call& call, const LinkModel& model,
                    std::optional<Form> wanted = {}) {
  Candidate best;
  for (const Form form : {Form::packets, Form::flags, Form::direct, Form::open}) {
    if (wanted && form != *wanted) continue;
    if (reads_buffers(form) && !(model.reads_peers && allows(algorithm, form))) continue;
    const Candidate candidate{&algorithm, form, predict(algorithm, form, ranks, call, model)};
    if (candidate.nanoseconds >= best.nanoseconds) continue;
    if (form == Form::packets && !fits_packets(algorithm, ranks, call)) continue;
    best = candidate;
  }
  return best;
}

bool suits(const Algorithm& algorithm, int ranks, bool commutative) {
  return ranks <= algorithm.max_ranks && (commutative || algorithm.guarantees.ordered);
}

Candidate best(const Call& call, int ranks, bool commutative, const LinkModel& model) {
  Candidate best;
  for (const Algorithm& algorithm : algorithms(call.collective)) {
    if (!suits(algorithm, ranks, commutative)) continue;
    const Candidate candidate = best_form(algorithm, ranks, call, model);
    if (candidate.nanoseconds < best.nanoseconds) best = candidate;
  }
  return best;
}

}  // namespace

double predict(const Algorithm& algorithm, Form form, int ranks, const Call& call,
               const LinkModel& model) {
  const Cost cost = algorithm.cost(ranks, call.contract(ranks).typical_count());
  const double element = static_cast<double>(size_of(call.type).value());
  // What is sent is read from boards by its receivers; boards are written once for all of them.
  const double moved = (cost.sent + cost.reduced) * element;
  const double relayed = algorithm.sends == Sends::outputs ? moved / 2 : 0;
  const bool long_buffers =
      bytes_of(call.contract(ranks).extent(), call.element()) >= model.read_until;
  const double read_byte = long_buffers ? model.read_byte_uncached : model.read_byte;
  switch (form) {
    case Form::packets:
      return cost.steps * model.packet_step + moved * model.packet_byte;
    case Form::flags:
      return cost.steps * model.flag_step + moved * model.flag_byte;
    case Form::direct:  // one more message says that all has been read
      return (cost.steps + 1) * model.flag_step + (ranks - 1) * model.read_call +
             (moved - relayed) * read_byte + relayed * model.flag_byte;
    case Form::open:
      return (cost.steps + 1) * model.flag_step + cost.steps * (ranks - 1) * model.read_call +
             moved * read_byte;
  }
  return std::numeric_limits<double>::infinity();
}

Choice choose(const Call& call, int ranks, const AlgorithmRules& rules, bool commutative,
              const LinkModel& model) {
  const Bytes bytes = bytes_of(call.contract(ranks).extent(), call.element());
  const AlgorithmRules::Rule* rule = rules.find(call.collective, bytes);
  if (rule && (commutative || rule->algorithm->guarantees.ordered)) {
    Candidate candidate = best_form(*rule->algorithm, ranks, call, model, rule->form);
    if (!candidate.algorithm) candidate = best_form(*rule->algorithm, ranks, call, model);
    return {rule->algorithm, candidate.form, "asked for by a rule"};
  }
  const Candidate winner = best(call, ranks, commutative, model);
  if (!winner.algorithm)
    throw InvalidArgument(
        fmt::format("no {} algorithm runs on {} ranks{}", name_of(call.collective), ranks,
                    commutative ? "" : " with an operation that is not commutative"));
  return {winner.algorithm, winner.form,
          fmt::format("least predicted time, {:.2f} us", winner.nanoseconds / 1000)};
}

}  // namespace capstan
