// SPDX-License-Identifier: Apache-2.0

// Backends in one process: mock, Capstan among threads, and what the interface itself does.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <future>
#include <vector>

#include "capstan/backends/communicator_backend.hpp"
#include "tests/backends/contract.hpp"
#include "tests/backends/worlds.hpp"
#include "tests/sanitizers.hpp"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

MakeRank threads_of(std::vector<Communicator>& world) {
  return [&](int rank) { return make_backend(std::move(world[static_cast<std::size_t>(rank)])); };
}

Settings bounded_settings() {
  Settings settings;
  settings.timeout = std::chrono::seconds{60};
  return settings;
}

template <class Error, class Body>
std::string text_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing of that type was thrown";
}

TEST(Requirement, T1_ProgramsAreWrittenAgainstOneInterface) {
  for (int ranks = 1; ranks <= (thread_sanitized ? 3 : 4); ++ranks) {
    on_ranks(ranks, mock_ranks(ranks, "T1"), check_contract);
    auto world = Communicator::local_world(ranks, bounded_settings());
    on_ranks(ranks, threads_of(world), check_contract);
  }
}

/// A backend of one rank that can only block, as a third party would write it.
class Echo : public Backend {
 public:
  std::string_view name() const override { return "echo"; }
  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  bool is_initialized() const override { return open_; }
  Capabilities capabilities() const override { return {}; }
  void close() override { open_ = false; }

 protected:
  void run_checked(const Request& request) override {
    if (request.output && request.output != request.input)
      std::memcpy(request.output, request.input,
                  bytes_of(request.output_count, size_of(request.type)).value());
  }

 private:
  bool open_ = true;
};

struct EchoFactory : BackendFactory {
  EchoFactory(std::string called, int rank, Availability found = {})
      : name_(std::move(called)), priority_(rank), found_(std::move(found)) {}
  std::string name() const override { return name_; }
  int priority() const override { return priority_; }
  Availability look() const override {
    ++looks;
    if (found_.reason == "throws") throw std::runtime_error("no such luck");
    return found_;
  }
  std::unique_ptr<Backend> create(const BackendConfig&) const override {
    return std::make_unique<Echo>();
  }
  mutable int looks = 0;

 private:
  std::string name_;
  int priority_;
  Availability found_;
};

TEST(Requirement, T13_ABackendDerivesFromOneBaseThatKnowsRankAndSize) {
  Echo echo;
  Backend& backend = echo;
  EXPECT_EQ(backend.rank(), 0);
  EXPECT_EQ(backend.world_size(), 1);
  check_contract(backend);
  backend.close();
  backend.close();
  Tensor data{DataType::f32, {1}};
  EXPECT_THAT(text_of<InvalidArgument>([&] { backend.all_reduce(data.view()); }),
              HasSubstr("closed"));
}

TEST(Requirement, O54_WhatABackendLacksIsNotSupportedAndNamesIt) {
  Echo echo;
  Tensor data{DataType::f32, {1}};
  const TensorView view = data.view();
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { (void)echo.start_all_reduce(view); }, [&] { (void)echo.start_barrier(); },
           [&] { (void)echo.start_broadcast(view, 0); }, [&] { echo.send(view, 0); },
           [&] { (void)echo.start_send(view, 0); }, [&] { echo.receive(view, 0); },
           [&] { (void)echo.probe(0); }, [&] { echo.abort("why"); },
           [&] { (void)echo.subgroup(std::vector{0}); },
           [&] { echo.all_reduce(TensorView{view.data, view.type, {1}, {}, {DeviceType::cuda}}); }})
    EXPECT_THAT(text_of<NotSupported>(call), AllOf(HasSubstr("echo"), HasSubstr("rank 0")));
  echo.all_reduce(view);
}

TEST(Requirement, T15_OneThreadPlaysAllRanksInAnyOrder) {
  constexpr int ranks = 3;
  const int orders[][ranks] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}};
  for (const auto& order : orders) {
    std::vector<std::unique_ptr<Backend>> world(ranks);
    std::vector<Tensor> data(ranks);
    std::vector<Work> works(ranks);
    for (const int rank : order) {  // each is made and starts before the next exists
      const auto r = static_cast<std::size_t>(rank);
      world[r] = create_backend("mock", bounded(ranks, rank, "T15"));
      data[r] = Tensor::of({rank + 1, 10 * rank});
      works[r] = world[r]->start_all_reduce(data[r].view());
    }
    for (const int rank : order) works[static_cast<std::size_t>(rank)].wait();
    for (const Tensor& each : data) EXPECT_EQ(each, Tensor::of({6, 30}));
  }
}

TEST(Requirement, T15_RankAfterRankMakesAllOfItsCalls) {
  constexpr std::size_t ranks = 2, calls = 20;
  std::vector<std::unique_ptr<Backend>> world;
  std::vector<std::vector<Tensor>> data(ranks);
  std::vector<Work> works;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    world.push_back(create_backend("mock", bounded(2, static_cast<int>(rank), "T15b")));
    for (std::size_t i = 0; i < calls; ++i)
      data[rank].push_back(Tensor::of({static_cast<int>(100 * rank + i)}));
    for (Tensor& each : data[rank]) works.push_back(world[rank]->start_all_reduce(each.view()));
    works.push_back(world[rank]->start_send(data[rank][0].view(), static_cast<int>(1 - rank)));
  }
  EXPECT_EQ(world[0]->receive(DataType::i32, 1).count(), Elements{1});
  EXPECT_EQ(Work::wait_all(works, Deadline::in(std::chrono::seconds{60})), true);
  for (std::size_t i = 0; i < calls; ++i)
    EXPECT_EQ(data[1][i], Tensor::of({static_cast<int>(100 + 2 * i)}));
}

TEST(Mock, WhoIsMissingIsNamedInTime) {
  BackendConfig config = bounded(3, 1, "missing");
  config.timeout = std::chrono::milliseconds{50};
  const auto backend = create_backend("mock", config);
  EXPECT_THAT(
      text_of<TimedOut>([&] { backend->barrier(); }),
      AllOf(HasSubstr("rank 1: mock: barrier"), HasSubstr("rank 0, 2"), HasSubstr("start_")));
}

TEST(Mock, ADelayIsSimulated) {
  BackendConfig config = bounded(1, 0, "delay");
  config.options["delay"] = "0.05";
  const auto backend = create_backend("mock", config);
  const auto before = std::chrono::steady_clock::now();
  const Work work = backend->start_barrier();
  EXPECT_FALSE(work.wait_for(std::chrono::nanoseconds{0}));
  work.wait();
  EXPECT_GE(std::chrono::steady_clock::now() - before, std::chrono::milliseconds{50});
}

TEST(Mock, RanksThatCallOtherThingsAreAMismatch) {
  on_ranks(2, mock_ranks(2, "mismatch"), [](Backend& world) {
    Tensor data{DataType::f32, {world.rank() + 1}};
    EXPECT_THROW(world.all_reduce(data.view()), Error);
  });
}

TEST(Mock, ARankThatLeavesOrAbortsIsNamed) {
  auto a = create_backend("mock", bounded(2, 0, "leaves"));
  auto b = create_backend("mock", bounded(2, 1, "leaves"));
  const Work work = a->start_barrier();
  b->close();
  EXPECT_THROW(work.wait(), PeerLost);
  a = create_backend("mock", bounded(2, 0, "aborts"));
  b = create_backend("mock", bounded(2, 1, "aborts"));
  const Work waiting = a->start_barrier();
  b->abort("enough");
  EXPECT_THAT(text_of<Aborted>([&] { waiting.wait(); }), HasSubstr("enough"));
}

TEST(Mock, AWorkMayBeWaitedForByAFuture) {
  const auto a = create_backend("mock", bounded(2, 0, "future"));
  const auto b = create_backend("mock", bounded(2, 1, "future"));
  auto future = a->start_barrier().future();
  b->barrier();
  EXPECT_EQ(future.wait_for(std::chrono::seconds{60}), std::future_status::ready);
}

/// Operations that end at one time, with no thread in a call: the callback of each waits for the
/// future of the next.
TEST(Mock, CallbacksOnItsThreadMayWaitForFutures) {
  const auto a = create_backend("mock", bounded(2, 0, "callbacks"));
  const auto b = create_backend("mock", bounded(2, 1, "callbacks"));
  constexpr std::size_t count = 4;
  std::vector<Work> works;
  for (std::size_t i = 0; i < count; ++i) works.push_back(a->start_barrier());
  std::vector<std::future<void>> ends(count);
  for (std::size_t i = 1; i < count; ++i) ends[i] = works[i].future();
  std::vector<std::promise<bool>> waited(count - 1);
  for (std::size_t i = 0; i + 1 < count; ++i)
    works[i].on_complete([&, i](const Work&) {
      const auto found = ends[i + 1].wait_for(std::chrono::seconds{20});
      waited[i].set_value(found == std::future_status::ready);
    });
  for (std::size_t i = 0; i < count; ++i) b->barrier();
  for (auto& each : waited) EXPECT_TRUE(each.get_future().get());
}

TEST(Mock, AnOperationThatACallbackStartsIsProgressed) {
  const auto a = create_backend("mock", bounded(2, 0, "starts"));
  const auto b = create_backend("mock", bounded(2, 1, "starts"));
  std::promise<bool> ended;
  const Work first = a->start_barrier();
  first.ensure_progress();
  first.on_complete([&](const Work&) {
    const auto found = a->start_barrier().future().wait_for(std::chrono::seconds{20});
    ended.set_value(found == std::future_status::ready);
  });
  for (int i = 0; i < 2; ++i) b->barrier();
  EXPECT_TRUE(ended.get_future().get());
}

TEST(Requirement, T21_AFactoryMakesABackendByItsNameMockByDefault) {
  const auto backend = create_backend();
  EXPECT_EQ(backend->name(), "mock");
  EXPECT_EQ(create_backend("capstan")->name(), "capstan");
}

TEST(Requirement, T22_NamesAreOfAnyCase) {
  for (const char* name : {"mock", "Mock", "MOCK", "mOcK"})
    EXPECT_EQ(create_backend(name)->name(), "mock");
  EXPECT_EQ(create_backend("CAPSTAN")->name(), "capstan");
  EXPECT_NO_THROW((void)create_backend("Auto"));
}

TEST(Requirement, T23_WorldSizeIsOneAndRankZeroByDefault) {
  const auto one = create_backend("mock");
  EXPECT_EQ(one->world_size(), 1);
  EXPECT_EQ(one->rank(), 0);
  EXPECT_EQ(one->device(), Device{});
  const auto config = BackendConfig::from_keys({{"world_size", "4"},
                                                {"rank", "3"},
                                                {"device", "cuda:2"},
                                                {"unique_id", "T23"},
                                                {"timeout", "0.5"},
                                                {"delay", "0"}});
  EXPECT_EQ(config.device, (Device{DeviceType::cuda, 2}));
  EXPECT_EQ(config.timeout, std::chrono::milliseconds{500});
  EXPECT_EQ(create_backend("mock", config)->rank(), 3);
  EXPECT_EQ(BackendConfig{}.timeout, std::chrono::seconds{300});
  for (const auto& [key, value] : std::map<std::string, std::string>{
           {"world_size", "0"}, {"rank", "-1"}, {"rank", "x"}, {"device", "gpu"}, {"timeout", ""}})
    EXPECT_THAT(text_of<InvalidArgument>([&] { BackendConfig::from_keys({{key, value}}); }),
                HasSubstr(key + "='" + value + "'"));
  EXPECT_THROW((void)create_backend("mock", bounded(2, 2, "")), InvalidArgument);
  EXPECT_THAT(text_of<InvalidArgument>([] {
                (void)create_backend("mock", BackendConfig::from_keys({{"colour", "red"}}));
              }),
              AllOf(HasSubstr("colour"), HasSubstr("unique_id")));
}

TEST(Requirement, T24_AnUnknownNameIsNamedWithThoseThatAreKnown) {
  EXPECT_THAT(text_of<InvalidArgument>([] { (void)create_backend("smoke-signals"); }),
              AllOf(HasSubstr("smoke-signals"), HasSubstr("capstan"), HasSubstr("mock")));
}

TEST(Requirement, T42_TheFactoryGivesTheBackendThatWasAskedFor) {
  for (const std::string name : {"mock", "capstan"}) {
    EXPECT_TRUE(BackendRegistry::instance().is_available(name));
    EXPECT_EQ(create_backend(name)->name(), name);
  }
}

TEST(Requirement, M37_BackendsStandInARegistryWithPriorities) {
  BackendRegistry registry;
  const auto low = std::make_shared<EchoFactory>("low", 1);
  const auto best = std::make_shared<EchoFactory>(
      "best", 9, Availability{false, "it is not installed", "install it"});
  registry.add(low);
  registry.add(best);
  registry.add(std::make_shared<EchoFactory>("thrower", 5, Availability{false, "throws", ""}));
  EXPECT_EQ(registry.names(), (std::vector<std::string>{"best", "thrower", "low"}));
  EXPECT_EQ(registry.priority("BEST"), 9);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(registry.create("auto")->name(), "echo");
  EXPECT_EQ(low->looks, 1) << "found out once";
  EXPECT_EQ(best->looks, 1);
  EXPECT_THAT(registry.availability("thrower").reason, HasSubstr("no such luck"));
  EXPECT_THAT(text_of<NotSupported>([&] { (void)registry.create("Best"); }),
              AllOf(HasSubstr("best"), HasSubstr("not installed"), HasSubstr("install it")));
  EXPECT_THROW(registry.add(low), InvalidArgument) << "there is one already";
  EXPECT_THROW(registry.add(std::make_shared<EchoFactory>("auto", 1)), InvalidArgument);
  EXPECT_THROW(registry.add(std::make_shared<EchoFactory>("Upper", 1)), InvalidArgument);
}

TEST(Requirement, M37_CapstanStandsAboveMpiAndTheMockLast) {
  const auto names = BackendRegistry::instance().names();
  EXPECT_EQ(names.front(), "capstan");
  EXPECT_EQ(names.back(), "mock");
  EXPECT_EQ(create_backend("auto")->name(), "capstan");
}

/// Descriptors and threads of this process.
std::pair<std::ptrdiff_t, std::ptrdiff_t> held() {
  const auto entries = [](const char* folder) {
    return std::distance(std::filesystem::directory_iterator{folder}, {});
  };
  return {entries("/proc/self/fd"), entries("/proc/self/task")};
}

TEST(Backends, OfHundredsThatAreMadeAndClosedNothingIsLeft) {
  (void)create_backend("capstan");
  const auto before = held();
  for (int i = 0; i < (sanitized ? 200 : 1000); ++i) {
    const auto a = create_backend("mock", bounded(2, 0, "cycle"));
    const auto b = create_backend("mock", bounded(2, 1, "cycle"));
    const auto alone = create_backend("capstan");
    alone->barrier();
    a->close();
    if (i % 2) b->close();
  }
  EXPECT_EQ(held(), before);
}

TEST(Backends, CapstanRefusesAWorldThatIsNotTheLaunchers) {
  EXPECT_THAT(text_of<InvalidArgument>([] { (void)create_backend("capstan", bounded(7, 0, "")); }),
              AllOf(HasSubstr("world_size=7"), HasSubstr("unique_id")));
}

TEST(Backends, CapstanJoinsByAUniqueId) {
  const std::string id = to_string(create_unique_id());
  on_ranks(
      2, [&](int rank) { return create_backend("capstan", bounded(2, rank, id)); },
      [](Backend& world) {
        Tensor data = Tensor::of({world.rank() + 1});
        world.all_reduce(data.view());
        EXPECT_EQ(data, Tensor::of({3}));
      });
}

}  // namespace
}  // namespace capstan
