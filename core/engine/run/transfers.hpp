// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace capstan {

/// The steps of a transfer, in the order in which they run. An operation works on the buffers that
/// the last step before it has written.
///
///   caller's buffers ── gather ─► dense memory ── stage ─► host memory ── scale ─► operation
///   caller's buffers ◄─ scatter ─ dense memory ◄─ unstage ─ host memory ◄──────── operation
enum class TransferStep : std::uint8_t {
  gather,   ///< elements that do not lie one after another, or many buffers, into one buffer
  stage,    ///< from a device into host memory
  scale,    ///< each element times a factor
  unstage,  ///< from host memory to a device
  scatter   ///< from one buffer to elements that do not lie one after another, or many buffers
};

/// The transfers of one operation between the caller's buffers and memory of the operation: at most
/// one for each step.
class Transfers {
 public:
  /// The order of calls does not matter: steps run in the order of TransferStep.
  void add(TransferStep step, std::function<void()> copy);

  bool any() const { return !list_.empty(); }
  /// Runs gather, stage and scale, and forgets them: they run once.
  void run_inputs() {
    run_while([](TransferStep step) { return step <= TransferStep::scale; });
  }
  /// Runs unstage and scatter. What they throw is the error of the operation on this rank only.
  void run_outputs() {
    run_while([](TransferStep) { return true; });
  }
  void clear() { list_.clear(); }

 private:
  struct Transfer {
    TransferStep step;
    std::function<void()> copy;
  };
  template <class Condition>
  void run_while(Condition belongs) {
    while (!list_.empty() && belongs(list_.front().step)) {
      const Transfer first = std::move(list_.front());
      list_.erase(list_.begin());
      first.copy();
    }
  }

  std::vector<Transfer> list_;  // in the order in which they run
};

}  // namespace capstan
