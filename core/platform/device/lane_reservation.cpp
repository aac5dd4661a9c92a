// SPDX-License-Identifier: Apache-2.0
#include "core/platform/device/lane_reservation.hpp"

#include <map>
#include <mutex>

namespace capstan {
namespace {

std::mutex mutex;

/// By driver and device, whatever the context.
int& lanes_on(const DeviceBuffer& where) {
  static auto& all = *new std::map<std::pair<DeviceDriver*, int>, int>;
  return all[{where.driver, where.place.device}];
}

}  // namespace

std::optional<LaneReservation> LaneReservation::of(const DeviceBuffer& where, int lanes,
                                                   int multiprocessors) {
  const std::lock_guard lock{mutex};
  int& reserved = lanes_on(where);
  if (lanes < 1 || lanes > multiprocessors - reserved) return std::nullopt;
  reserved += lanes;
  return LaneReservation{where, lanes};
}

int LaneReservation::reserved(const DeviceBuffer& where) {
  const std::lock_guard lock{mutex};
  return lanes_on(where);
}

LaneReservation::~LaneReservation() {
  if (lanes_ == 0) return;
  const std::lock_guard lock{mutex};
  lanes_on(where_) -= lanes_;
}

}  // namespace capstan
