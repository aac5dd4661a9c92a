// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/selection/device_links.hpp"

namespace capstan {
namespace {

/// One byte that a device reads from its memory, or writes to it, with all of its lanes.
constexpr double own_byte = 0.0003;

/// The constants of a kernel that waits for others. No read of one rank lengthens those of others:
/// where they share a memory, the share of each counts in the bytes.
LinkModel of_kernels(DeviceLink link) {
  return {.devices = link,
          .call = 6000,
          .signal = 100,
          .flag = 2500,
          .miss = 150,
          .reduce_byte = 0,
          .contention = 0,
          .packet_write = 0.4,
          .packet = 1800,
          .next_packet = 0.95,
          .next_source = 300,
          .polled_packet = 0};
}

/// `share`: by which ranks that use one memory at the same time slow each other down.
void set_bytes(LinkModel& model, double share, double read_byte) {
  model.local_byte = own_byte * share;
  model.staging_write_byte = 2 * own_byte * share;         // reading the source is included
  model.staging_read_byte = own_byte * share + read_byte;  // so is writing what was read
  model.next_staging_byte = read_byte;
}

}  // namespace

LinkModel device_links(DeviceLink link, int ranks) {
  LinkModel model = of_kernels(link);
  switch (link) {
    case DeviceLink::memory:
      set_bytes(model, ranks, own_byte * ranks);
      model.first_staging_byte = 0.6;  // lanes are few where ranks share a device
      return model;
    case DeviceLink::direct:
      set_bytes(model, 1, 1.0 / 300);
      break;
    case DeviceLink::bus:
      set_bytes(model, 1, 1.0 / 30);
      break;
  }
  model.first_staging_byte = 0.3;
  model.flag = 4000;
  model.packet = 3000;
  model.next_packet = 20;
  return model;
}

}  // namespace capstan
