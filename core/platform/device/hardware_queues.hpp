// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace capstan {

/// The hardware queues that the streams of a process share on a device.
struct HardwareQueues {
  int number = 1;
  int most = 1;               ///< that the vendor's driver can use
  const char* variable = "";  ///< the environment variable that the driver reads their number from
};

/// The queues that the environment variable sets, from 1 to `most`; `usual` where it is not set.
HardwareQueues hardware_queues_of(const char* variable, int usual, int most);

}  // namespace capstan
