// SPDX-License-Identifier: Apache-2.0
#include "core/engine/run/agreement.hpp"

#include <algorithm>
#include <cassert>
#include <span>

namespace capstan {

Call Agreement::call() const {
  const bool gathers = combine == Combine::all;
  return {.collective = gathers ? Collective::all_gather : Collective::all_reduce,
          .type = type,
          .op = combine == Combine::least      ? ReduceOp::min
                : combine == Combine::greatest ? ReduceOp::max
                                               : ReduceOp::sum,
          .shape = {.count = Elements{count}},
          .purpose = purpose,
          .about = about};
}

void combine(const Agreement& agreement, const ByRank<std::vector<std::byte>>& answers,
             void* result) {
  assert(agreement.type == DataType::u8 && agreement.combine != Combine::greatest);
  const std::size_t size = agreement.answer_bytes().value();
  const std::span whole{static_cast<std::byte*>(result),
                        agreement.result_bytes(answers.size()).value()};
  if (agreement.combine == Combine::all) {
    for (int rank = 0; rank < answers.size(); ++rank)
      std::ranges::copy(answers[Rank{rank}],
                        whole.subspan(static_cast<std::size_t>(rank) * size).begin());
    return;
  }
  std::ranges::copy(answers[Rank{0}], whole.begin());
  for (const auto& answer : answers)
    std::ranges::transform(answer, whole, whole.begin(), std::ranges::min);
}

bool holds_everywhere(Exchange& exchange, bool answer, std::string_view subject, Purpose purpose) {
  const std::uint8_t own = answer ? 1 : 0;
  std::uint8_t least = 0;
  exchange.run({.subject = subject, .purpose = purpose}, &own, &least);
  return least != 0;
}

}  // namespace capstan
