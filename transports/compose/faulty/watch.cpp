#include "transports/compose/faulty/watch.hpp"

namespace capstan::faults {

Watch::Watch(int other) {
  for (const int descriptor : {other, nudged_.descriptor()}) {
    both_.add(descriptor, {}, Poller::input);
  }
}

}  // namespace capstan::faults
