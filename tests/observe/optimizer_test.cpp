// SPDX-License-Identifier: Apache-2.0

// The optimizer, over communicators and backends, and the parts that it is made of: selector,
// pinned memory, GPUDirect.

#include "capstan/observe/optimizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "capstan/backends/communicator_backend.hpp"
#include "capstan/backends/factory.hpp"
#include "capstan/backends/gpu_direct.hpp"
#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

constexpr Bytes kib{1024}, mib{1 << 20};

Settings predicted() {
  Settings settings = bounded_settings();
  settings.autotune = false;
  return settings;
}

std::string chosen(const AlgorithmSelector& selector, Bytes bytes) {
  return selector.select(Collective::all_reduce, bytes).algorithm;
}

AlgorithmSelector by_example(int ranks) {
  return AlgorithmSelector{ranks, std::string{AlgorithmSelector::example_rules}};
}

TEST(Requirement, O25_ASelectorIsMadeForANumberOfRanksAndAConfiguration) {
  EXPECT_EQ(AlgorithmSelector{8}.ranks(), 8);
  EXPECT_THROW(AlgorithmSelector{0}, InvalidArgument);
  EXPECT_THROW(AlgorithmSelector(2, "", 4), InvalidArgument);
  EXPECT_THROW(AlgorithmSelector(2, "all_reduce:nonsense"), InvalidArgument);
  EXPECT_EQ(chosen(AlgorithmSelector{4, "all_reduce:ring"}, kib), "ring");
}

TEST(Requirement, O26_TheExampleRulesChooseBySizeAndRanksAtEveryBoundary) {
  const Bytes one{4};  // byte counts are those of whole elements
  const auto at = [](int ranks, Bytes bytes) { return chosen(by_example(ranks), bytes); };
  EXPECT_EQ(at(8, kib * 4 - one), "recursive_doubling");
  EXPECT_EQ(at(8, kib * 4), "rabenseifner");
  EXPECT_EQ(at(9, kib * 4 - one), "rabenseifner");
  EXPECT_EQ(at(16, mib - one), "rabenseifner");
  EXPECT_EQ(at(16, mib), "ring");
  EXPECT_EQ(at(17, mib - one), "ring");
  EXPECT_EQ(at(17, one), "ring");
  EXPECT_EQ(at(4, mib * 16 - one), "ring");
  EXPECT_EQ(at(4, mib * 16), "binomial_tree");
  EXPECT_EQ(at(17, mib * 16), "binomial_tree");
}

TEST(Requirement, O27_TheExampleRulesGatherInARing) {
  for (const Bytes bytes : {kib, mib * 4})
    EXPECT_EQ(by_example(8).select(Collective::all_gather, bytes).algorithm, "ring");
}

TEST(Requirement, O28_TheExampleRulesScatterSumsByHalving) {
  for (const Bytes bytes : {kib, mib * 4})
    EXPECT_EQ(by_example(8).select(Collective::reduce_scatter, bytes).algorithm,
              "recursive_halving");
}

TEST(Requirement, O29_AlgorithmsHaveNamesAndAnUnknownOneIsTold) {
  const auto names = AlgorithmSelector::names(Collective::all_reduce);
  for (const char* name : {"ring", "binomial_tree", "recursive_doubling", "rabenseifner"}) {
    EXPECT_THAT(names, Contains(name));
    EXPECT_EQ(AlgorithmSelector::known_name(Collective::all_reduce, name), name);
  }
  EXPECT_EQ(AlgorithmSelector::known_name(Collective::all_reduce, "magic"), "unknown");
}

TEST(Requirement, O30_AChoiceIsAskedForWithoutRunningAnything) {
  const AlgorithmSelector selector{64, "", 8};
  for (const Bytes bytes : {Bytes{0}, Bytes{1}, kib, mib}) {
    const auto selection = selector.select(Collective::all_reduce, bytes);
    EXPECT_EQ(AlgorithmSelector::known_name(Collective::all_reduce, selection.algorithm),
              selection.algorithm);
    EXPECT_NE(selection.protocol, "");
    EXPECT_NE(selection.reason, "");
  }
  EXPECT_NE(selector.select(Collective::barrier, Bytes{0}).algorithm, "");
  EXPECT_THROW((void)selector.select(Collective::all_gather_v, kib), InvalidArgument);
}

TEST(Requirement, O3_MemoryOfATensorIsPinned) {
  PinnedMemoryManager pinned{mib};
  Tensor tensor{DataType::f32, {64, 16}};
  auto handle = pinned.pin(tensor.view());
  EXPECT_EQ(handle.data(), tensor.data());
  EXPECT_EQ(handle.size(), tensor.bytes());
  EXPECT_GE(pinned.total_pinned(), tensor.bytes());
  handle.reset();
  handle.reset();
  EXPECT_EQ(pinned.total_pinned(), Bytes{0});
  std::vector<float> gaps(64);
  const auto strided = pinned.pin(TensorView{gaps.data(), {4, 2}, {16, 1}});
  EXPECT_EQ(strided.size(), Bytes{50 * sizeof(float)}) << "3 * 16 + 1 + 1 elements";
  EXPECT_THROW((void)pinned.pin(TensorView{static_cast<float*>(nullptr), {4}}), InvalidArgument);
  EXPECT_THROW(
      (void)pinned.pin(TensorView{gaps.data(), DataType::f32, {4}, {}, {DeviceType::cuda}}),
      InvalidArgument);
}

TEST(Requirement, O13_ProgramsHavePinnedMemoryWithALimit) {
  PinnedMemoryManager pinned{kib * 64};
  EXPECT_EQ(pinned.limit(), kib * 64);
  EXPECT_EQ(PinnedMemoryManager{}.limit(), Bytes{std::uint64_t{1} << 30});
  auto block = pinned.allocate(kib * 60);
  block.bytes().front() = std::byte{1};
  EXPECT_THROW((void)pinned.allocate(kib * 60), LimitReached);
  block.reset();
  block = pinned.allocate(kib * 60);
  EXPECT_EQ(pinned.statistics().reuses, 1U);
}

/// A backend that does nothing but have a name.
class NamedBackend final : public Backend {
 public:
  explicit NamedBackend(std::string_view name) : name_(name) {}
  std::string_view name() const override { return name_; }
  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  bool is_initialized() const override { return true; }
  Capabilities capabilities() const override { return {}; }
  void close() override {}

 private:
  std::string_view name_;
};

GpuDirectReport report_of(bool possible) {
  return {.vendor = GpuVendor::nvidia,
          .routes = {{GpuDirectRoute::dma_buf,
                      {{"network card", possible, "there is none", "install one"}}}}};
}

TEST(Requirement, O18_GpuDirectIsRefusedWithAReasonWhereItIsNotThere) {
  const auto enable = [] { enable_gpu_direct(NamedBackend{"nccl"}, report_of(false)); };
  EXPECT_THAT(enable,
              ThrowsMessage<SystemError>(AllOf(HasSubstr("there is none"), HasSubstr("install"))));
  if (!gpu_direct().supported()) {
    EXPECT_THROW(enable_gpu_direct(NamedBackend{"nccl"}), SystemError);
  }
}

TEST(Requirement, O18_BackendsThatStageTensorsOfDevicesSaySo) {
  const auto enable = [] { enable_gpu_direct(NamedBackend{"capstan"}, report_of(true)); };
  EXPECT_THAT(enable, ThrowsMessage<NotSupported>(HasSubstr("use nccl or rccl")));
}

TEST(Requirement, O20_NcclIsToldToUseItsNetworkCard) {
  ::unsetenv("NCCL_IB_DISABLE");
  enable_gpu_direct(NamedBackend{"nccl"}, report_of(true));
  EXPECT_STREQ(std::getenv("NCCL_IB_DISABLE"), "0");
}

TEST(Requirement, O21_RcclIsToldToUseItsNetworkCard) {
  ::unsetenv("RCCL_IB_DISABLE");
  enable_gpu_direct(NamedBackend{"rccl"}, report_of(true));
  EXPECT_STREQ(std::getenv("RCCL_IB_DISABLE"), "0");
}

TEST(Requirement, O23_ProgramsReadTheReport) {
  const GpuDirectReport& report = gpu_direct();
  EXPECT_EQ(&report, &gpu_direct());
  ASSERT_THAT(report.routes, SizeIs(3));
  for (const RouteReport& route : report.routes)
    EXPECT_TRUE(route.available() || !route.obstacle()->remedy.empty());
}

TEST(Requirement, O49_AnOptimizerIsMadeOfABackendWhichIsNotNull) {
  EXPECT_THROW(Optimizer{std::shared_ptr<Backend>{}}, InvalidArgument);
  Optimizer optimizer{std::shared_ptr<Backend>{create_backend("mock")}};
  EXPECT_EQ(optimizer.selector().ranks(), 1);
}

TEST(Requirement, O50_ItHasPinnedMemoryIfTheConfigurationSaysSo) {
  const std::shared_ptr<Backend> mock = create_backend("mock");
  Optimizer with{mock, {.pinned_memory_limit = mib}};
  ASSERT_NE(with.pinned_memory(), nullptr);
  EXPECT_EQ(with.pinned_memory()->limit(), mib);
  EXPECT_EQ((Optimizer{mock, {.use_pinned_memory = false}}.pinned_memory()), nullptr);
}

TEST(Requirement, O51_ItProfilesIfTheConfigurationSaysSo) {
  const std::shared_ptr<Backend> mock = create_backend("mock");
  Optimizer silent{mock, {.enable_logging = false}};
  EXPECT_FALSE(silent.profiler().enabled());
  EXPECT_EQ(silent.all_reduce(Tensor::of<float>({1, 2})), Tensor::of<float>({1, 2}));
  EXPECT_TRUE(Optimizer{mock}.profiler().enabled());
}

TEST(Requirement, O52_AnAllReduceIsChosenRunAndRecorded) {
  on_threads(3, predicted(), [](Communicator& world) {
    Optimizer optimizer{world, {.algorithm = "all_reduce:ring"}};
    const Tensor sum = optimizer.all_reduce(Tensor::of<float>({1.0F * world.rank(), 2}));
    EXPECT_EQ(sum, Tensor::of<float>({3, 6}));
    Tensor data = Tensor::of<std::int32_t>({world.rank()});
    optimizer.all_reduce(data.view(), ReduceOp::max);
    EXPECT_EQ(data, Tensor::of<std::int32_t>({2}));
    const auto profiles = optimizer.profiler().profiles();
    ASSERT_THAT(profiles, SizeIs(2));
    EXPECT_EQ(profiles[0].operation, "AllReduce");
    EXPECT_EQ(profiles[0].algorithm, "ring");
    EXPECT_EQ(profiles[0].bytes, Bytes{8});
    EXPECT_EQ(profiles[0].ranks, 3);
  });
}

TEST(Requirement, O53_OneInTheBackgroundIsRecordedWhenItEnds) {
  on_threads(2, predicted(), [](Communicator& world) {
    Optimizer optimizer{world};
    Tensor data = Tensor::of<float>({1, 2});
    Work work = optimizer.start_all_reduce(data);
    work.wait();
    EXPECT_EQ(data, Tensor::of<float>({2, 4}));
    const auto profiles = optimizer.profiler().profiles();
    ASSERT_THAT(profiles, SizeIs(1));
    EXPECT_EQ(profiles[0].operation, "AllReduceAsync");
    EXPECT_NE(profiles[0].algorithm, "");
  });
}

TEST(Requirement, O54_TheOptimizerPassesOnWhatABackendLacks) {
  Optimizer optimizer{std::make_shared<NamedBackend>("silent")};
  Tensor data = Tensor::of<float>({1});
  EXPECT_THROW((void)optimizer.start_all_reduce(data), NotSupported);
  EXPECT_EQ(optimizer.profiler().statistics().failures, 1U);
}

TEST(Requirement, O55_ProfilerAndSelectorCanBeReached) {
  Optimizer optimizer{std::shared_ptr<Backend>{create_backend("mock")},
                      {.algorithm = "all_reduce:ring"}};
  Tensor data = Tensor::of<float>({1});
  optimizer.all_reduce(data.view());
  EXPECT_EQ(optimizer.profiler().profiles().at(0).algorithm, "ring");
  EXPECT_EQ(optimizer.selector().select(Collective::all_reduce, mib).algorithm, "ring");
  optimizer.profiler().clear();
  EXPECT_THAT(optimizer.profiler().profiles(), SizeIs(0));
}

TEST(Requirement, O56_TheyGoWithTheOptimizer) {
  const std::shared_ptr<Backend> mock = create_backend("mock");
  PinnedMemoryManager::Handle kept;
  {
    Optimizer first{mock};
    Optimizer second{std::move(first)};
    kept = second.pinned_memory()->allocate(kib);
    EXPECT_EQ(mock.use_count(), 2);
  }
  EXPECT_EQ(mock.use_count(), 1);
  kept.bytes().front() = std::byte{1};  // what is in use outlives it
}

TEST(Requirement, O57_AConfigurationSaysWhatIsUsedAndHasDefaults) {
  const OptimizerConfig config;
  EXPECT_TRUE(config.use_pinned_memory);
  EXPECT_TRUE(config.enable_logging);
  EXPECT_EQ(config.algorithm, "");
}

TEST(Requirement, O69_TheSameCallsWorkOverAnyBackendWithAllParts) {
  on_threads(2, predicted(), [](Communicator& world) {
    const std::shared_ptr<Backend> backend = make_backend(std::move(world));
    Optimizer optimizer{backend, {.algorithm = std::string{AlgorithmSelector::example_rules}}};
    auto memory = optimizer.pinned_memory()->allocate(kib * 4);
    const TensorView data{memory.data(), DataType::f32, {1024}};
    std::fill_n(reinterpret_cast<float*>(memory.data()), 1024, 1.0F);
    optimizer.all_reduce(data);
    optimizer.start_all_reduce(data).wait();
    EXPECT_EQ(reinterpret_cast<float*>(memory.data())[1023], 4.0F);
    const auto groups = optimizer.profiler().groups();
    ASSERT_THAT(groups, SizeIs(2));
    EXPECT_EQ(groups[0].operation, "AllReduce");
    EXPECT_EQ(groups[0].algorithm, "rabenseifner");
    EXPECT_EQ(groups[1].operation, "AllReduceAsync");
  });
}

}  // namespace
}  // namespace capstan
