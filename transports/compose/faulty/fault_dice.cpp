// SPDX-License-Identifier: Apache-2.0
#include "transports/compose/faulty/fault_dice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

namespace capstan::faulty {
namespace {

constexpr std::uint64_t word = 8;

/// The decisions. Each draws from numbers of its own, so that one fault does not change the others.
enum class Draw : std::uint64_t {
  delay,
  delay_calls,
  partial,
  drop,
  first,
  pause,
  reorder,
  spurious,
  early,
  early_part
};

/// The output function of SplitMix64 (Steele, Lea, Flood 2014).
std::uint64_t scattered(std::uint64_t x) {
  x += 0x9e37'79b9'7f4a'7c15;
  x = (x ^ (x >> 30)) * 0xbf58'476d'1ce4'e5b9;
  x = (x ^ (x >> 27)) * 0x94d0'49bb'1331'11eb;
  return x ^ (x >> 31);
}

/// A pseudo-random number that depends on nothing but the arguments.
class Drawn {
 public:
  Drawn(const FaultPlan& plan, Rank self, Rank peer, Draw what, std::uint64_t event) {
    for (const std::uint64_t part :
         {plan.seed, static_cast<std::uint64_t>(self.value()),
          static_cast<std::uint64_t>(peer.value()), static_cast<std::uint64_t>(what), event}) {
      number_ = scattered(number_ ^ part);
    }
  }
  /// From 0 to less than 1.
  double part() const { return static_cast<double>(number_ >> 11) * 0x1p-53; }
  bool happens(double probability) const { return part() < probability; }
  /// From 1 to `most`.
  std::uint64_t up_to(std::uint64_t most) const { return 1 + number_ % most; }

 private:
  std::uint64_t number_ = 0;
};

/// Bytes of the range before the first, second, ... border between two words of the segment.
Bytes before_border(Bytes offset, std::uint64_t border) {
  return Bytes{border * word - offset.value() % word};
}

/// Borders between words within a range. A push may be cut there only, as words show as a whole.
std::uint64_t borders_in(Bytes offset, Bytes length) {
  const std::uint64_t end = offset.value() % word + length.value();
  return end == 0 ? 0 : (end - 1) / word;
}

}  // namespace

FaultDice::FaultDice(const FaultPlan& plan, Rank self, Rank peer)
    : plan_(plan), self_(self), peer_(peer) {}

Delivery FaultDice::delivery_of(std::uint64_t push, Bytes offset, Bytes length) const {
  const auto draw = [&](Draw what) { return Drawn{plan_, self_, peer_, what, push}; };
  Delivery delivery;
  for (const FaultPlan::Stop& stop : plan_.stops) {
    if (stop.rank == peer_ && stop.after == push) delivery.hold += stop.calls;
  }
  if (draw(Draw::delay).happens(plan_.delay))
    delivery.hold += draw(Draw::delay_calls).up_to(plan_.delay_calls);

  delivery.resent = draw(Draw::drop).happens(plan_.drop);
  const std::uint64_t borders = borders_in(offset, length);
  if (borders > 0 && (delivery.resent || draw(Draw::partial).happens(plan_.partial)))
    delivery.first = before_border(offset, draw(Draw::first).up_to(borders));
  const std::uint64_t wait =
      delivery.resent ? plan_.resend_calls
                      : draw(Draw::pause).up_to(std::max<std::uint64_t>(plan_.delay_calls, 1));
  (delivery.first > Bytes{0} ? delivery.pause : delivery.hold) +=
      delivery.resent || delivery.first > Bytes{0} ? wait : 0;
  return delivery;
}

bool FaultDice::skipped(std::uint64_t push) const {
  return Drawn{plan_, self_, peer_, Draw::reorder, push}.happens(plan_.reorder);
}

std::optional<std::string> FaultDice::broken_after(std::uint64_t pushes) const {
  for (const FaultPlan::Reset& reset : plan_.resets) {
    const bool here = (reset.one == self_ && reset.other == peer_) ||
                      (reset.one == peer_ && reset.other == self_);
    if (here && pushes >= reset.after)
      return fmt::format("injected fault: the connection was reset after {} pushes ({})", pushes,
                         plan_.to_string());
  }
  for (const FaultPlan::Death& death : plan_.deaths) {
    if ((death.rank == self_ || death.rank == peer_) && pushes >= death.after)
      return fmt::format("injected fault: rank {} died after {} pushes ({})", death.rank.value(),
                         pushes, plan_.to_string());
  }
  return std::nullopt;
}

double part_of_sleep(const FaultPlan& plan, Rank self, std::uint64_t sleep) {
  const auto draw = [&](Draw what) { return Drawn{plan, self, self, what, sleep}; };
  if (draw(Draw::spurious).happens(plan.spurious)) return 0;
  if (draw(Draw::early).happens(plan.early)) return draw(Draw::early_part).part();
  return 1;
}

}  // namespace capstan::faulty
