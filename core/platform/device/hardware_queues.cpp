// SPDX-License-Identifier: Apache-2.0
#include "core/platform/device/hardware_queues.hpp"

#include <algorithm>
#include <cstdlib>

namespace capstan {

HardwareQueues hardware_queues_of(const char* variable, int usual, int most) {
  const char* const text = std::getenv(variable);
  const int number = text && *text ? std::atoi(text) : usual;
  return {.number = std::clamp(number, 1, most), .most = most, .variable = variable};
}

}  // namespace capstan
