// SPDX-License-Identifier: Apache-2.0

// A rank takes in messages wherever it waits, stores no more of them than it is allowed to, and
// wakes those that wait for it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <deque>
#include <map>

#include "capstan/async/operation_queue.hpp"
#include "core/engine/run/progress.hpp"
#include "tests/ranks/random_messages.hpp"
#include "tests/ranks/thread_world.hpp"
#include "tests/sanitizers.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;

/// One host; two that the ranks are spread over; and one with a progress thread on each rank.
enum class Place { one_host, two_hosts, by_thread };

Settings settings_of(Place place) {
  Settings settings = bounded_settings();
  settings.virtual_hosts = place == Place::two_hosts ? 2 : 0;
  settings.progress_thread = place == Place::by_thread;
  return settings;
}

std::string name_of(const ::testing::TestParamInfo<Place>& test) {
  return std::array{"OneHost", "TwoHosts", "ByThread"}[static_cast<std::size_t>(test.param)];
}

class MessageWaits : public ::testing::TestWithParam<Place> {};

INSTANTIATE_TEST_SUITE_P(All, MessageWaits,
                         ::testing::Values(Place::one_host, Place::two_hosts, Place::by_thread),
                         name_of);

/// Ways to wait for rank 0, which sends to rank 1 before it comes.
using Wait = void (*)(Communicator& world);

void in_a_barrier(Communicator& world) {
  world.barrier();
}
void for_a_work(Communicator& world) {
  world.start_barrier().wait();
}
void for_any_work(Communicator& world) {
  std::vector<Work> works{world.start_barrier()};
  Work::wait_any(works, Deadline::in(60s));
  works.front().wait();
}
void for_a_queue(Communicator& world) {
  OperationQueue queue;
  queue.enqueue(world.start_barrier());
  queue.wait_for_all();
}
void for_a_message(Communicator& world) {
  int token = 0;
  if (world.rank() == 0)
    world.send(std::span{&token, 1}, 1, 99);
  else
    world.receive(std::span{&token, 1}, 0, 99);
}
void in_a_probe(Communicator& world) {
  int token = 0;
  if (world.rank() == 0) return world.send(std::span{&token, 1}, 1, 98);
  world.probe(0, 98);
  world.receive(std::span{&token, 1}, 0, 98);
}

/// Rank 0 sends more than a ring between two ranks holds, so that it waits for the receiver.
TEST_P(MessageWaits, ARankThatWaitsTakesMessagesIn) {
  on_threads(2, settings_of(GetParam()), [](Communicator& world) {
    constexpr int messages = 200;
    auto group = world.split(0);
    for (const Wait wait : {in_a_barrier, for_a_work, for_any_work, for_a_message, in_a_probe,
                            for_a_queue, +[](Communicator&) {}})
      for (Communicator* const by : {&world, &*group}) {
        std::vector<std::vector<int>> data;
        std::vector<Work> sends;
        for (int i = 0; i < messages; ++i) data.emplace_back(2000, i);
        if (world.rank() == 0)
          for (int i = 0; i < messages; ++i) sends.push_back(by->start_send(data[i], 1, i % 3));
        for (const Work& work : sends) work.wait();
        wait(world);
        if (world.rank() == 1)
          for (int i = 0; i < messages; ++i) {
            by->receive(data[0], 0, i % 3);
            ASSERT_THAT(data[0], Each(i));
          }
      }
  });
}

TEST(MessageWaitsOfBlockingSends, ToARankInABarrier) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    std::vector<std::uint8_t> data(1024, 3);
    if (world.rank() == 0)
      for (int i = 0; i < 1000; ++i) world.send(data, 1);
    world.barrier();
    if (world.rank() == 1)
      for (int i = 0; i < 1000; ++i) world.receive(data, 0);
    EXPECT_THAT(data, Each(3));
  });
}

/// Over a network each message has to leave before the next thread runs.
TEST_P(MessageWaits, MessagesThatNobodyAsksForWaitAtTheirSenderBeyondTheLimit) {
  const int messages = sanitized || GetParam() == Place::two_hosts ? 1'000 : 100'000;
  Settings settings = settings_of(GetParam());
  settings.unexpected_messages = Bytes{1 << 20};
  on_threads(2, settings, [=](Communicator& world) {
    std::vector<std::uint8_t> data(8000, 7);
    if (world.rank() == 1) {
      world.barrier();
      world.barrier();
      for (int i = 0; i < messages; ++i) world.receive(data, 0);
      EXPECT_THAT(data, Each(7));
      return;
    }
    std::vector<Work> sends;
    for (int i = 0; i < messages; ++i) sends.push_back(world.start_send(data, 1));
    sends.front().wait();
    world.barrier();
    const auto stored =
        std::ranges::count_if(sends, [](auto& work) { return work.is_completed(); });
    EXPECT_LE(stored * 8000, 1 << 20);
    world.barrier();
    for (const Work& work : sends) work.wait();
  });
}

TEST_P(MessageWaits, FloodsInAllDirectionsEndWhateverIsStored) {
  for (const int limit : {0, 200, 20'000}) {
    Settings settings = settings_of(GetParam());
    settings.unexpected_messages = Bytes{static_cast<std::uint64_t>(limit)};
    on_threads(4, settings, [&](Communicator& world) {
      EXPECT_EQ(RandomMessages(world, sanitized ? 400 : 2000, 5).run(), "") << limit;
      world.barrier();
      std::vector<std::vector<int>> in(4, std::vector<int>(100)), out;
      for (int to = 0; to < 4; ++to) out.emplace_back(100, world.rank() * 4 + to);
      std::vector<Work> receives, sends;
      for (int i = 0; i < 200; ++i)
        for (int peer = 0; peer < 4; ++peer) sends.push_back(world.start_send(out[peer], peer));
      world.barrier();
      for (int i = 0; i < 200; ++i)
        for (int peer = 0; peer < 4; ++peer) world.receive(in[peer], peer);
      for (const Work& work : sends) work.wait();
      for (int from = 0; from < 4; ++from) EXPECT_THAT(in[from], Each(from * 4 + world.rank()));
    });
  }
}

/// A joint action of all ranks, in the order of a list. Each does its part in every event before
/// the next. So some order of all parts never waits in vain, even if every send waits for its
/// receive. Operations may begin before their event and end later; that takes no order away.
struct Event {
  int kind;  ///< message, message to any source, or collective
  int from, to, size;
  bool starts_send, posts_early, probes;
};

rc::Gen<Event> event(int ranks) {
  const auto rank = rc::gen::inRange(0, ranks);
  return rc::gen::construct<Event>(
      rc::gen::weightedElement<int>({{6, 0}, {2, 1}, {2, 2}}), rank, rank,
      rc::gen::oneOf(rc::gen::inRange(0, 60), rc::gen::inRange(0, 6000)),
      rc::gen::arbitrary<bool>(), rc::gen::arbitrary<bool>(), rc::gen::arbitrary<bool>());
}

/// One rank's part in them.
class Part {
 public:
  explicit Part(Communicator& world) : world_(world) {}

  void play(const std::vector<Event>& events) {
    for (std::size_t i = 0; i < events.size(); ++i)
      if (events[i].kind == 0 && events[i].posts_early && events[i].to == world_.rank())
        early_[i] = world_.start_receive(buffer_of(i), events[i].from, tag_of(i));
    for (std::size_t i = 0; i < events.size(); ++i) play(events[i], i);
    for (const Work& work : sends_) work.wait();
  }

 private:
  static constexpr int any_source_tag = 1'000'000;

  /// Tags differ, as receives are posted in another order than the events'.
  static int tag_of(std::size_t i) { return static_cast<int>(i); }
  std::vector<int>& buffer_of(std::size_t i) { return buffers_[i] = std::vector<int>(6000, -1); }

  void play(const Event& event, std::size_t i) {
    const auto value = static_cast<int>(i);
    if (event.kind == 2) {
      std::vector<int> sum{value + world_.rank()};
      world_.all_reduce(sum);
      const int ranks = world_.size();
      ASSERT_EQ(sum.front(), ranks * value + ranks * (ranks - 1) / 2);
      return;
    }
    const bool any = event.kind == 1;
    if (event.from == world_.rank()) {
      std::vector<int>& data = data_.emplace_back(event.size, value);
      // A send to any source or to oneself may be received later than in its event.
      if (any || event.from == event.to || event.starts_send)
        sends_.push_back(world_.start_send(data, event.to, any ? any_source_tag : tag_of(i)));
      else
        world_.send(data, event.to, tag_of(i));
    }
    if (event.to == world_.rank()) any ? receive_any() : receive(event, i);
  }

  void receive(const Event& event, std::size_t i) {
    if (event.posts_early) {
      early_[i].wait();
    } else {
      if (event.probes) {
        EXPECT_EQ(world_.probe(event.from, tag_of(i)).size.value(), event.size * sizeof(int));
      }
      world_.receive(buffer_of(i), event.from, tag_of(i));
    }
    const std::span got{buffers_[i]};
    EXPECT_THAT(got.first(event.size), Each(static_cast<int>(i)));
    EXPECT_THAT(got.subspan(event.size), Each(-1));
  }

  /// Messages of one source arrive in the order of their events.
  void receive_any() {
    std::vector<int> buffer(6000);
    const MessageInfo info = world_.receive(buffer, any_source, any_source_tag);
    if (info.size == Bytes{0}) return;
    EXPECT_GT(buffer.front(), last_of_[info.source]);
    last_of_[info.source] = buffer.front();
  }

  Communicator& world_;
  std::deque<std::vector<int>> data_;
  std::map<std::size_t, std::vector<int>> buffers_;
  std::map<std::size_t, Work> early_;
  std::vector<Work> sends_;
  std::map<int, int> last_of_{{0, -1}, {1, -1}, {2, -1}, {3, -1}};
};

RC_GTEST_PROP(MessagePrograms, ThatMpiAllowsNeverHang, ()) {
  const int ranks = *rc::gen::inRange(2, 5);
  const auto place = *rc::gen::element(Place::one_host, Place::two_hosts, Place::by_thread);
  Settings settings = settings_of(place);
  settings.unexpected_messages = Bytes{*rc::gen::element<std::uint64_t>(0, 150, 1000, 10'000)};
  settings.single_copy = *rc::gen::arbitrary<bool>();
  const auto events = *rc::gen::container<std::vector<Event>>(event(ranks));
  on_threads(ranks, settings, [&](Communicator& world) { Part{world}.play(events); });
  RC_ASSERT(!::testing::Test::HasFailure());
}

/// With sleeps that last until somebody ends them, a wake-up that is missing costs this time.
struct LongSleeps {
  static constexpr auto time = 20s;
  LongSleeps() { Progress::longest_sleep = time; }
  ~LongSleeps() { Progress::longest_sleep = 20ms; }
  const std::uint64_t before = Progress::sleeps_that_ran_out;
  std::uint64_t ran_out() const { return Progress::sleeps_that_ran_out - before; }
};

/// Each rank comes late once to each call, when the others have gone to sleep.
void come_late_to_everything(Communicator& world) {
  const int size = world.size();
  for (int late = 0; late < size; ++late)
    for (const std::size_t length : {1, 20, 3000, 300'000}) {
      const auto come = [&] {
        if (world.rank() == late) std::this_thread::sleep_for(5ms);
      };
      std::vector<int> data(length, 1), all(length * size);
      come();
      world.all_reduce(data);
      ASSERT_THAT(data, Each(size));
      come();
      world.broadcast(data, late);
      come();
      world.all_gather(data, all);
      come();
      world.reduce(data, data, late);
      come();
      world.scan(data);
      come();
      world.barrier();
      const int right = (world.rank() + 1) % size, left = (world.rank() + size - 1) % size;
      Work sent = world.start_send(data, right);
      come();
      world.receive(std::span{all}.first(length), left);
      sent.wait();
    }
}

class Wakes : public ::testing::TestWithParam<Place> {};

INSTANTIATE_TEST_SUITE_P(All, Wakes, ::testing::Values(Place::one_host, Place::two_hosts), name_of);

TEST_P(Wakes, NoRankSleepsOnWhenWhatItWaitsForHasCome) {
  const LongSleeps sleeps;
  on_threads(3, settings_of(GetParam()), come_late_to_everything);
  EXPECT_EQ(sleeps.ran_out(), 0);
}

}  // namespace
}  // namespace capstan
