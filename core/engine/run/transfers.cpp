// SPDX-License-Identifier: Apache-2.0
#include "core/engine/run/transfers.hpp"

#include <algorithm>

namespace capstan {

void Transfers::add(TransferStep step, std::function<void()> copy) {
  const auto after = [&](const Transfer& transfer) { return transfer.step > step; };
  list_.insert(std::ranges::find_if(list_, after), {step, std::move(copy)});
}

}  // namespace capstan
