// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string_view>

#include "capstan/error.hpp"
#include "core/platform/device/device_memory.hpp"

namespace capstan {

/// Runs a body with a place current. Throws SystemError that names `what` if it returns an error.
template <class Body>
void at_place(const DeviceBuffer& where, std::string_view what, const Body& body) {
  DeviceDriver& driver = *where.driver;
  int former = 0;
  int error = driver.enter(where.place, former);
  if (error == 0) {
    error = body(driver);
    driver.leave(former);
  }
  if (error != 0)
    throw SystemError(fmt::format("{} by {} failed on device {}: {}", what, driver.name(),
                                  where.place.device, driver.text_of(error)));
}

}  // namespace capstan
