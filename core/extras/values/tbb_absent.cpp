// SPDX-License-Identifier: Apache-2.0
#include "capstan/values/tbb_scheduler.hpp"

namespace capstan::values {

struct TbbScheduler::Impl {};

bool TbbScheduler::is_available() {
  return false;
}

TbbScheduler::TbbScheduler(int) {
  throw InvalidArgument(
      "this build of Capstan has no oneTBB: install libtbb-dev and libtbbbind-2-5 and build it "
      "again, "
      "or use Pool");
}

TbbScheduler::~TbbScheduler() = default;
int TbbScheduler::numa_nodes() const {
  return 0;
}
std::optional<int> TbbScheduler::node_of_this_thread() {
  return std::nullopt;
}
void TbbScheduler::enqueue(TaskPromise&, bool) {}
void TbbScheduler::wait(BufferBase&) {}
void TbbScheduler::run_until_idle() {}
bool TbbScheduler::is_idle() const {
  return true;
}

}  // namespace capstan::values
