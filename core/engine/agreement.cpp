#include "core/engine/agreement.hpp"

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

bool holds_everywhere(Exchange& exchange, bool answer, std::string_view subject, Purpose purpose) {
  const std::uint8_t own = answer ? 1 : 0;
  std::uint8_t least = 0;
  exchange.run({.subject = subject, .purpose = purpose}, &own, &least);
  return least != 0;
}

}  // namespace capstan
