// SPDX-License-Identifier: Apache-2.0

// Buffers on devices, with fake drivers that forbid any other access: once for CUDA, once for HIP.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <numeric>

#include "core/platform/device/device_memory.hpp"
#include "tests/devices/cells.hpp"
#include "tests/ranks/null_memory.hpp"
#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Staged : public ::testing::Test {
 protected:
  void SetUp() override { load_driver(); }
  void TearDown() override {
    EXPECT_EQ(driver_knob("depth"), 0) << "a context or a device is still current";
  }

  static Settings settings(bool thread = false) {
    Settings settings = bounded_settings();
    settings.chunk = Bytes{16384};
    settings.progress_thread = thread;
    return settings;
  }
};

std::vector<float> filled(std::size_t count, float value) {
  return std::vector<float>(count, value);
}

/// The text of the exception that `body` throws.
template <class Error, class Body>
std::string error_of(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing of this kind was thrown";
  return "";
}

TEST_F(Staged, OnlyWhatTheHostCannotReachIsOnADevice) {
  EXPECT_FALSE(Communicator::local_world(1).empty());
  const Memory device{Where::device, 64}, pool{Where::pool, 64}, managed{Where::managed, 64};
  const Memory host{Where::host, 64};
  EXPECT_TRUE(on_device(device.data()));
  EXPECT_TRUE(on_device(device.data() + 63));
  EXPECT_TRUE(on_device(pool.data()));
  EXPECT_EQ(find_device_buffer(pool.data())->place.device, 1);
  EXPECT_FALSE(on_device(managed.data()));
  EXPECT_FALSE(on_device(host.data()));
  EXPECT_FALSE(on_device(host.data() + 1));
  EXPECT_FALSE(on_device(nullptr));
}

TEST_F(Staged, AllCollectivesAmongThreads) {
  const int before = driver_knob("to_host");
  for (const int ranks : {1, 2, 3})
    for (const bool thread : {false, true})
      on_threads(ranks, settings(thread),
                 [&](Communicator& world) { EXPECT_EQ(trouble_with_collectives(world), ""); });
  EXPECT_GT(driver_knob("to_host"), before);
}

TEST_F(Staged, ManyInFlightReadWhatWasThereWhenTheyStarted) {
  for (const bool thread : {false, true})
    on_threads(3, settings(thread), [](Communicator& world) {
      constexpr std::size_t n = 12;
      Memory input{Where::device, 40'000};
      std::vector<std::unique_ptr<DeviceArray<float>>> outputs;
      std::vector<Work> works;
      const std::span<float> shared{reinterpret_cast<float*>(input.data()), 10'000};
      for (std::size_t i = 0; i < n; ++i) {
        // One input for all calls: it may be written again as soon as a call has started.
        const auto values = filled(10'000, static_cast<float>(i));
        input.write(std::as_bytes(std::span{values}));
        outputs.push_back(std::make_unique<DeviceArray<float>>(filled(10'000, -1)));
        works.push_back(world.start_all_reduce(shared, outputs.back()->span()));
      }
      for (std::size_t i = n; i-- > 0;) {
        works[i].wait();
        EXPECT_THAT(outputs[i]->values(), Each(3.0f * static_cast<float>(i)));
        EXPECT_EQ(works[i].result<float>().data(), outputs[i]->span().data());
      }
    });
}

TEST_F(Staged, OperationsOfTheProgramAndFactorsSeeHostMemory) {
  on_threads(2, settings(), [](Communicator& world) {
    const float own = static_cast<float>(world.rank() + 1);
    DeviceArray<float> data{filled(3000, own)};
    const auto larger =
        Reducer::of<float>("larger", [](float a, float b) { return a > b ? a : b; });
    world.all_reduce(data.span(), larger);
    EXPECT_THAT(data.values(), Each(2.0f));
    world.all_reduce(data.span(), Reducer::premultiplied_sum(own));
    EXPECT_THAT(data.values(), Each(6.0f));
    world.start_all_reduce(data.span(), Reducer::premultiplied_sum(0.5)).wait();
    EXPECT_THAT(data.values(), Each(6.0f));
  });
}

TEST_F(Staged, ExscanLeavesTheFirstRanksOutputAsItIs) {
  on_threads(2, settings(), [](Communicator& world) {
    const DeviceArray<float> input{filled(100, 5)}, output{filled(100, -7)};
    world.exscan(input.span(), output.span());
    EXPECT_THAT(output.values(), Each(world.rank() == 0 ? -7.0f : 5.0f));
  });
}

TEST_F(Staged, GroupsHaveItToo) {
  on_threads(3, settings(), [](Communicator& world) {
    auto group = world.split(world.rank() % 2);
    const DeviceArray<float> data{filled(1000, 1)};
    group->all_reduce(data.span());
    EXPECT_THAT(data.values(), Each(static_cast<float>(group->size())));
  });
}

// ---- tensors ------------------------------------------------------------------------------------

/// A 3 x 4 tensor in the columns 1 .. 4 of a 3 x 6 matrix.
TensorView middle_of(const DeviceArray<float>& matrix) {
  return {matrix.span().data() + 1, DataType::f32, {3, 4}, {6, 1}, {DeviceType::cuda, 0}};
}

TEST_F(Staged, TensorsWithStridesKeepTheirGaps) {
  on_threads(2, settings(), [](Communicator& world) {
    const DeviceArray<float> matrix{filled(18, 1)};
    world.all_reduce(middle_of(matrix));
    world.start_all_reduce(middle_of(matrix), Reducer::premultiplied_sum(2)).wait();
    const float in = 8, gap = 1;
    EXPECT_THAT(matrix.values(), ElementsAre(gap, in, in, in, in, gap, gap, in, in, in, in, gap,
                                             gap, in, in, in, in, gap));
    const DeviceArray<float> dense{filled(12, static_cast<float>(world.rank()))};
    world.broadcast({dense.span().data(), {3, 4}}, 1);
    EXPECT_THAT(dense.values(), Each(1.0f));
  });
}

TEST_F(Staged, TensorsAlongAnyDimension) {
  on_threads(2, settings(), [](Communicator& world) {
    for (const int dimension : {0, 1})
      for (const Where where : {Where::device, Where::host}) {
        std::vector<float> own(6), all(12);
        std::iota(own.begin(), own.end(), static_cast<float>(10 * world.rank()));
        const DeviceArray<float> part{own, where}, whole{all}, back{own, where};
        const std::vector<std::int64_t> one{2, 3}, both = dimension == 0
                                                              ? std::vector<std::int64_t>{4, 3}
                                                              : std::vector<std::int64_t>{2, 6};
        world.all_gather({part.span().data(), one}, {whole.span().data(), both}, dimension);
        const std::vector<float> side_by_side{0, 1, 2, 10, 11, 12, 3, 4, 5, 13, 14, 15};
        const std::vector<float> one_after_the_other{0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15};
        EXPECT_EQ(whole.values(), dimension == 1 ? side_by_side : one_after_the_other);
        world.reduce_scatter({whole.span().data(), both}, {back.span().data(), one}, dimension);
        for (float& value : own) value *= 2;
        EXPECT_EQ(back.values(), own);
      }
  });
}

TEST_F(Staged, FusedBuffersLieAnywhere) {
  on_threads(2, settings(), [](Communicator& world) {
    const DeviceArray<float> first{filled(5, 1)}, third{filled(700, 3), Where::pool};
    std::vector<float> second = filled(30, 2);
    const std::span<float> pieces[] = {first.span(), second, third.span(), {}};
    world.all_reduce_fused<float>(pieces);
    world.start_all_reduce_fused<float>(pieces).wait();
    EXPECT_THAT(first.values(), Each(4.0f));
    EXPECT_THAT(second, Each(8.0f));
    EXPECT_THAT(third.values(), Each(12.0f));
  });
}

TEST_F(Staged, NullBesideADeviceIsRefusedByEveryCall) {
  auto world = std::move(Communicator::local_world(1, settings()).front());
  const DeviceArray<float> memory{filled(6, 1)}, other{filled(6, 2)};
  const int copies = driver_knob("to_host");
  expect_null_refused(world, memory.span(), other.span());
  EXPECT_EQ(driver_knob("to_host"), copies) << "nothing has been copied";
  world.all_reduce(memory.span(), other.span());
  EXPECT_THAT(other.values(), Each(1.0f));
}

// ---- messages -----------------------------------------------------------------------------------

class StagedMessages : public Staged, public ::testing::WithParamInterface<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, StagedMessages, ::testing::Values(0, 1, 2000, 30'000, 900'000));

TEST_P(StagedMessages, FromAndToDevices) {
  const std::size_t n = GetParam();
  for (const bool direct : {true, false}) {
    Settings own = settings();
    own.single_copy = direct;
    on_threads(2, own, [&](Communicator& world) {
      const int peer = 1 - world.rank();
      const float mine = static_cast<float>(world.rank() + 1);
      for (const Where from : {Where::device, Where::host})
        for (const Where to : {Where::device, Where::pool, Where::host}) {
          const DeviceArray<float> sent{filled(n, mine), from}, got{filled(n + 10, -1), to};
          Work work = world.start_send(sent.span(), peer, 3);
          EXPECT_EQ(world.receive(got.span(), peer, 3).size, Bytes{n * 4});
          work.wait();
          auto expected = filled(n, 3 - mine);
          expected.resize(n + 10, -1);
          EXPECT_EQ(got.values(), expected);
        }
    });
  }
}

TEST_F(Staged, ExchangesAndMessagesToOneself) {
  on_threads(2, settings(), [](Communicator& world) {
    const int peer = 1 - world.rank();
    const DeviceArray<float> data{filled(50'000, static_cast<float>(world.rank()))};
    const DeviceArray<float> theirs{filled(50'000, -1)}, own{filled(50'000, -1)};
    world.exchange({Message::to(peer, data.span()), Message::from(peer, theirs.span()),
                    Message::to(world.rank(), data.span(), 9),
                    Message::from(world.rank(), own.span(), 9)});
    EXPECT_THAT(theirs.values(), Each(static_cast<float>(peer)));
    EXPECT_THAT(own.values(), Each(static_cast<float>(world.rank())));
  });
}

TEST_F(Staged, AMessageThatDoesNotFitChangesNothing) {
  on_threads(2, settings(), [](Communicator& world) {
    if (world.rank() == 0) return world.send(filled(40'000, 1), 1);
    const DeviceArray<float> small{filled(100, -1)};
    EXPECT_THROW(world.receive(small.span(), 0), Truncated);
    EXPECT_THAT(small.values(), Each(-1.0f));
  });
}

TEST_F(Staged, CancelledMessagesLetGoOfTheDevice) {
  on_threads(2, settings(), [](Communicator& world) {
    if (world.rank() == 0) {
      // Long, and offered already: from now on, memory of the caller is not read any more.
      auto data = std::make_unique<DeviceArray<float>>(filled(50'000, 4));
      const Work work = world.start_send(data->span(), 1);
      EXPECT_TRUE(work.cancel());
      data.reset();
      world.barrier();
      return world.barrier();
    }
    const DeviceArray<float> unwanted{filled(10, -1)}, wanted{filled(50'000, -1)};
    const Work work = world.start_receive(unwanted.span(), 0, 77);
    EXPECT_TRUE(work.cancel());
    world.barrier();
    world.receive(wanted.span(), 0);
    EXPECT_THAT(wanted.values(), Each(4.0f));
    EXPECT_THAT(unwanted.values(), Each(-1.0f));
    world.barrier();
  });
}

// ---- when something goes wrong ------------------------------------------------------------------

TEST_F(Staged, WhatIsCancelledIsNotWritten) {
  for (const bool in_place : {false, true})
    on_threads(3, settings(), [&](Communicator& world) {
      auto input = std::make_unique<DeviceArray<float>>(filled(20'000, 1));
      const DeviceArray<float> output{filled(20'000, -1)};
      const auto start = [&] {
        return in_place ? world.start_all_reduce(output.span())
                        : world.start_all_reduce(input->span(), output.span());
      };
      if (world.rank() != 0) {
        start().wait();
        EXPECT_THAT(output.values(), Each(in_place ? -3.0f : 3.0f));
        return world.barrier();
      }
      const Work work = start();
      work.wait_for(1ms);
      const bool cancelled = work.cancel();
      input.reset();
      world.barrier();
      if (cancelled) {
        EXPECT_THAT(output.values(), Each(-1.0f));
      }
    });
}

TEST_F(Staged, WhatFailsIsNotWritten) {
  for (const bool thread : {false, true})
    on_threads(3, settings(thread), [](Communicator& world) {
      const DeviceArray<float> input{filled(20'000, 1)}, output{filled(20'000, -1)};
      const DeviceArray<float> message{filled(20'000, -1)};
      if (world.rank() == 1) {
        Communicator gone = std::move(world);  // ends here
        return;
      }
      const Work receive = world.start_receive(message.span(), 1);
      EXPECT_THROW(world.all_reduce(input.span(), output.span()), PeerLost);
      EXPECT_THROW(receive.wait(), PeerLost);
      EXPECT_THAT(output.values(), Each(-1.0f));
      EXPECT_THAT(message.values(), Each(-1.0f));
    });
}

TEST_F(Staged, TooLittlePinnedMemoryNamesRankCallAndRemedy) {
  Settings small = settings();
  small.pinned_memory = Bytes{64 << 10};
  on_threads(2, small, [](Communicator& world) {
    const DeviceArray<float> data{filled(100'000, 1)}, fits{filled(1000, 1)};
    const auto rank = fmt::format("rank {}: ", world.rank());
    EXPECT_THAT(error_of<LimitReached>([&] { world.all_reduce(data.span()); }),
                AllOf(HasSubstr(rank + "all_reduce(100000 x f32, sum)"),
                      HasSubstr("CAPSTAN_PINNED_MEMORY (64 KiB)"), HasSubstr("390.6 KiB")));
    EXPECT_THAT(error_of<LimitReached>([&] { (void)world.start_send(data.span(), 0, 5); }),
                HasSubstr(rank + "send(100000 x f32, to 0, tag 5)"));
    // No other rank has learned of it: all of them continue.
    world.all_reduce(fits.span());
    EXPECT_THAT(fits.values(), Each(2.0f));
    std::vector<Work> works;
    for (int i = 0; i < 12; ++i) works.push_back(world.start_all_reduce(fits.span()));
    Work::wait_all(works);
    for (const Work& work : works) work.wait();
  });
}

TEST_F(Staged, ACopyThatFailsIsThisRanksErrorAlone) {
  for (const char* knob : {"fail_to_host", "fail_to_device"}) {
    std::atomic<int> failures = 0;
    on_threads(2, settings(), [&](Communicator& world) {
      if (world.rank() == 0) driver_knob(knob, 1);
      world.barrier();
      const DeviceArray<float> data{filled(1000, 1)};
      const bool starts = std::string{knob} == "fail_to_host";
      try {
        world.all_reduce(data.span());
      } catch (const SystemError& error) {
        ++failures;
        EXPECT_THAT(
            error.what(),
            AllOf(HasSubstr(fmt::format("rank {}: all_reduce(1000 x f32, sum)", world.rank())),
                  HasSubstr("unspecified launch failure (719)"), HasSubstr("device 0")));
        if (starts) world.all_reduce(data.span());  // the other rank is waiting for it
      }
      world.barrier();
    });
    EXPECT_EQ(failures, 1) << knob;
  }
}

TEST_F(Staged, ADeviceThatHangsIsAnError) {
  Settings impatient = settings();
  impatient.timeout = 300ms;
  on_threads(1, impatient, [](Communicator& world) {
    const DeviceArray<float> data{filled(1000, 1)};
    driver_knob("hang", 1);
    const auto what = error_of<SystemError>([&] { world.all_reduce(data.span()); });
    driver_knob("hang", -1);
    EXPECT_THAT(what, AllOf(HasSubstr("rank 0: all_reduce"), HasSubstr("within 0.3 s")));
    world.all_reduce(data.span());
  });
}

TEST_F(Staged, BlocksArePinnedOnceAndUsedAgain) {
  const int before = driver_knob("pinned");
  on_threads(2, settings(), [](Communicator& world) {
    const DeviceArray<float> data{filled(1000, 1)};
    for (int i = 0; i < 20; ++i) world.all_reduce(data.span(), ReduceOp::max);
    EXPECT_THAT(data.values(), Each(1.0f));
  });
  EXPECT_EQ(driver_knob("pinned") - before, 2);
}

}  // namespace
}  // namespace capstan
