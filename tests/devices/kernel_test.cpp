// SPDX-License-Identifier: Apache-2.0

// Kernels through the drivers' interface: modules, names, launches in streams. The stand-in for a
// driver runs the emulation, a while after the launch.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>

#include "capstan/error.hpp"
#include "core/platform/device/device_kernels.hpp"
#include "kernels/device/arguments.hpp"
#include "tests/devices/device_array.hpp"
#include "tests/devices/operands.hpp"

namespace capstan {
namespace {

using kernels::device::ReduceArguments;

class Kernels : public ::testing::Test {
 protected:
  void SetUp() override {
    load_driver();
    look_for_devices();
    memory_.emplace(Where::device, 64);
    where_ = find_device_buffer(memory_->data()).value();
    ASSERT_EQ(where_.driver->enter(where_.place, former_), 0);
    ASSERT_EQ(where_.driver->make_stream(stream_), 0);
  }
  void TearDown() override { where_.driver->leave(former_); }

  void wait() {
    while (where_.driver->query(stream_) == DeviceDriver::not_ready)
      std::this_thread::sleep_for(std::chrono::microseconds{50});
    EXPECT_EQ(where_.driver->query(stream_), 0);
  }

  std::optional<Memory> memory_;  // made when the driver is loaded
  DeviceBuffer where_;
  void* stream_ = nullptr;
  int former_ = 0;
};

TEST_F(Kernels, AreFoundByNameAndLaunchedInAStream) {
  DeviceDriver& driver = *where_.driver;
  void *module = nullptr, *kernel = nullptr;
  const char image[] = "any";
  ASSERT_EQ(driver.load_module(image, module), 0);
  EXPECT_NE(driver.find_kernel(module, "capstan_reduce_f32_bit_and", kernel), 0);
  ASSERT_EQ(driver.find_kernel(module, "capstan_reduce_f32_sum", kernel), 0);
  int multiprocessors = 0;
  EXPECT_EQ(driver.multiprocessors(0, multiprocessors), 0);
  EXPECT_EQ(multiprocessors, 2);

  const DeviceArray<float> a{{1, 2, 3}}, b{{10, 20, 30}}, sum{{0, 0, 0}};
  ReduceArguments arguments{.element_count = 3, .source_count = 2, .destination_count = 1};
  arguments.sources[0] = a.span().data();
  arguments.sources[1] = b.span().data();
  arguments.destinations[0] = sum.span().data();
  ASSERT_EQ(driver.launch(kernel, 2, 32, &arguments, sizeof arguments, stream_), 0);
  wait();
  EXPECT_EQ(sum.values(), (std::vector<float>{11, 22, 33}));
}

bool has_kernels(const DeviceBuffer& where) {
  return !where.driver->images().empty();
}

TEST_F(Kernels, ReduceAllTypes) {
  if (!has_kernels(where_)) {
    EXPECT_THROW(DeviceKernels::at(where_), SystemError) << "it says that the build has none";
    return;
  }
  DeviceKernels& kernels = DeviceKernels::at(where_);
  EXPECT_EQ(&kernels, &DeviceKernels::at(where_));
  for (const DataType type : all_data_types()) {
    std::vector<std::vector<std::byte>> values;
    std::vector<std::unique_ptr<DeviceArray<std::byte>>> arrays;
    std::vector<const void*> sources;
    for (std::uint64_t s = 0; s < 4; ++s) {
      values.push_back(random_elements(type, 1000, s));
      arrays.push_back(std::make_unique<DeviceArray<std::byte>>(values.back()));
      sources.push_back(arrays.back()->span().data());
    }
    void* const destinations[] = {arrays[0]->span().data()};
    kernels.reduce(
        type, ReduceOp::average,
        {.destinations = destinations, .sources = sources, .element_count = 1000, .divisor = 4},
        stream_);
    wait();
    EXPECT_EQ(arrays[0]->values(), reduced_by_processor(type, ReduceOp::average, values, 4))
        << name_of(type);
  }
}

TEST_F(Kernels, RefuseWhatTheyCannotDo) {
  if (!has_kernels(where_))
    GTEST_SUCCEED() << "left out of this build";
  else {
    DeviceKernels& kernels = DeviceKernels::at(where_);
    void* const destination[] = {memory_->data()};
    const std::vector<const void*> many(65, memory_->data());
    EXPECT_THROW(
        kernels.reduce(DataType::c64, ReduceOp::max,
                       {.destinations = destination, .sources = {many.data(), 2}}, stream_),
        InvalidArgument);
    EXPECT_THROW(kernels.reduce(DataType::f32, ReduceOp::sum,
                                {.destinations = destination, .sources = many}, stream_),
                 InvalidArgument);
    EXPECT_THROW(kernels.reduce(
                     DataType::f32, ReduceOp::sum,
                     {.destinations = destination, .sources = {many.data(), 2}, .element_count = 1},
                     nullptr),
                 SystemError);
  }
}

}  // namespace
}  // namespace capstan
