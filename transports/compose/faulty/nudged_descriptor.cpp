// SPDX-License-Identifier: Apache-2.0
#include "transports/compose/faulty/nudged_descriptor.hpp"

namespace capstan::faulty {

NudgedDescriptor::NudgedDescriptor(int other) {
  for (const int descriptor : {other, nudged_.descriptor()}) {
    both_.add(descriptor, {}, Poller::input);
  }
}

}  // namespace capstan::faulty
