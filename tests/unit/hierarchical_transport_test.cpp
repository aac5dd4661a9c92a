// SPDX-License-Identifier: Apache-2.0

// A transport of two parts, one of which counts what it is asked for.

#include "transports/compose/hierarchical/hierarchical_transport.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "transports/compose/forwarding_transport.hpp"
#include "transports/loopback/loopback_transport.hpp"
#include "transports/shm/thread_transport.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;

/// How often a part was told that its rank is about to sleep, and that the sleep is over.
struct Sleeps {
  int prepared = 0, cancelled = 0;
};

class Counted final : public ForwardingTransport {
 public:
  Counted(std::unique_ptr<Transport> inner, Sleeps& sleeps)
      : ForwardingTransport(std::move(inner)), sleeps_(sleeps) {}

  void prepare_to_sleep() override {
    ++sleeps_.prepared;
    ForwardingTransport::prepare_to_sleep();
  }
  void cancel_sleep() override {
    ++sleeps_.cancelled;
    ForwardingTransport::cancel_sleep();
  }

 private:
  Sleeps& sleeps_;
};

/// Else peers would continue to ring for a rank that is awake, which costs them a system call each.
TEST(HierarchicalTransport, AfterASleepNeitherPartIsToBeRungFor) {
  constexpr Bytes segment{4096};
  auto near = make_thread_transports(1, segment, true);
  auto far = make_loopback_transports(2, segment);
  Sleeps near_sleeps, far_sleeps;
  const auto transport =
      make_hierarchical_transport(Rank{0}, Hosts{std::vector<int>{0, 1}},
                                  std::make_unique<Counted>(std::move(near[0]), near_sleeps),
                                  std::make_unique<Counted>(std::move(far[0]), far_sleeps));
  for (int sleeps = 1; sleeps <= 2; ++sleeps) {
    transport->prepare_to_sleep();
    transport->sleep(1ms);
    for (const Sleeps& part : {near_sleeps, far_sleeps}) {
      EXPECT_EQ(part.prepared, sleeps);
      EXPECT_EQ(part.cancelled, sleeps);
    }
  }
}

}  // namespace
}  // namespace capstan
