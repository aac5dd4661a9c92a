// SPDX-License-Identifier: Apache-2.0

// The backends over NCCL and RCCL, by a stand-in that moves data between threads.

#include "capstan/backends/nccl.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "capstan/backends/mpi.hpp"
#include "capstan/unique_id.hpp"
#include "tests/backends/contract.hpp"
#include "tests/backends/worlds.hpp"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

BackendConfig by_standin(BackendConfig config, const char* library = STANDIN) {
  config.options["library"] = library;
  config.options["runtime"] = STANDIN;
  return config;
}

std::string id_for(const std::string& name) {
  return name == "nccl" ? create_nccl_unique_id(STANDIN) : create_rccl_unique_id(STANDIN);
}

MakeRank ranks_of(const std::string& name, int ranks) {
  return [=, id = id_for(name)](int rank) {
    return create_backend(name, by_standin(bounded(ranks, rank, id)));
  };
}

int live_objects() {
  const auto count =
      reinterpret_cast<int (*)()>(::dlsym(::dlopen(STANDIN, RTLD_NOW), "standin_objects"));
  return count();
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

void check_backend(const std::string& name, DeviceType device) {
  for (int ranks = 1; ranks <= 4; ++ranks)
    on_ranks(ranks, ranks_of(name, ranks), [&](Backend& world) {
      EXPECT_EQ(world.name(), name);
      EXPECT_EQ(world.device(), (Device{device, 0}));
      check_contract(world);
    });
  EXPECT_EQ(live_objects(), 0) << "streams, events and device memory go with the backend";
}

TEST(Requirement, T18_TheContractHoldsOverNccl) {
  check_backend("nccl", DeviceType::cuda);
}

TEST(Requirement, T18_ARankADeviceAndAnIdMakeACommunicator) {
  BackendConfig config = by_standin({});
  config.device = {DeviceType::cuda, 3};
  EXPECT_EQ(create_backend("NCCL", config)->device(), config.device);
  config.device.index = 9;
  EXPECT_THAT(text_of<BackendError>([&] { (void)create_backend("nccl", config); }),
              HasSubstr("invalid device ordinal"));
  config.device = {DeviceType::rocm, 0};
  EXPECT_THROW((void)create_backend("nccl", config), InvalidArgument);
  EXPECT_THAT(
      text_of<InvalidArgument>([] { (void)create_backend("nccl", by_standin(bounded(2, 0, ""))); }),
      HasSubstr("create_nccl_unique_id()"));
  EXPECT_THROW((void)create_backend("nccl", by_standin(bounded(2, 0, "xy"))), InvalidArgument);
}

TEST(Requirement, T19_TheContractHoldsOverRccl) {
  check_backend("rccl", DeviceType::rocm);
}

TEST(Requirement, T44_OneProgramRunsOnWhateverIsThere) {
  const auto program = [](Backend& world) {
    Tensor data = Tensor::of({static_cast<float>(world.rank() + 1)});
    world.all_reduce(view_for(world, data), ReduceOp::max);
    EXPECT_EQ(data, Tensor::of({3.0F}));
  };
  on_ranks(3, mock_ranks(3, "T44"), program);
  on_ranks(3, ranks_of("nccl", 3), program);
  on_ranks(3, ranks_of("rccl", 3), program);
  const std::string id = to_string(create_unique_id());
  on_ranks(3, [&](int rank) { return create_backend("capstan", bounded(3, rank, id)); }, program);
}

TEST(Nccl, ItsErrorsHaveItsOwnTexts) {
  const auto backend = create_backend("nccl", by_standin({}));
  Tensor data{DataType::f16, {4}};
  EXPECT_THAT(text_of<BackendError>([&] { backend->all_reduce(view_for(*backend, data)); }),
              AllOf(HasSubstr("rank 0: nccl: all_reduce(4 x f16, sum)"),
                    HasSubstr("invalid argument"), HasSubstr("does not compute")));
  Tensor complex{DataType::c64, {4}};
  EXPECT_THAT(text_of<NotSupported>([&] { backend->all_reduce(view_for(*backend, complex)); }),
              AllOf(HasSubstr("nccl"), HasSubstr("c64")));
  EXPECT_THAT(text_of<NotSupported>([&] { backend->all_reduce(complex.view()); }),
              HasSubstr("copy it to the device"))
      << "tensors of the host";
  EXPECT_THROW((void)backend->probe(0), NotSupported);
}

TEST(Nccl, AnotherVersionAndCapstanUnderItsNameAreRefused) {
  EXPECT_EQ(nccl_version(STANDIN), 22809);
  EXPECT_THAT(
      text_of<NotSupported>([] { (void)create_backend("nccl", by_standin({}, STANDIN_OLD)); }),
      AllOf(HasSubstr("2604"), HasSubstr("2.7")));
  EXPECT_THAT(text_of<NotSupported>([] { (void)nccl_version("/proc/nowhere/libnccl.so.2"); }),
              AllOf(HasSubstr("/proc/nowhere"), HasSubstr("install NCCL")));
#ifdef CAPSTAN_NCCL
  EXPECT_THAT(text_of<NotSupported>([] { (void)nccl_version(CAPSTAN_NCCL); }),
              HasSubstr("Capstan under NCCL's name"));
#endif
}

/// NVIDIA's library: the file that NCCL_LIBRARY names, or one of the usual places.
std::string real_nccl() {
  const char* const named = std::getenv("NCCL_LIBRARY");
  for (const char* file : {named ? named : "", "/usr/local/cuda/lib64/libnccl.so.2",
                           "/usr/lib/x86_64-linux-gnu/libnccl.so.2"})
    if (std::filesystem::exists(file)) return file;
  return {};
}

TEST(Nccl, TheRealOneTellsItsVersionAndMakesAnId) {
  const std::string file = real_nccl();
  if (file.empty()) GTEST_SKIP() << "NCCL is not installed: NCCL_LIBRARY may name its file";
  EXPECT_GE(nccl_version(file), 2700);
  EXPECT_EQ(create_nccl_unique_id(file).size(), 256U);
}

// Tensors on devices over MPI, which is not CUDA-aware here.

const int plugins_are_here = ::setenv("CAPSTAN_PLUGINS", PLUGINS, 0);

TEST(Requirement, M34_TensorsOnDevicesAreStagedWhereMpiIsNotCudaAware) {
  if (!BackendRegistry::instance().is_available("mpi"))
    GTEST_SKIP() << BackendRegistry::instance().availability("mpi").reason;
  BackendConfig config;
  config.options["runtime"] = STANDIN;
  config.options["use_cuda_aware_mpi"] = "0";
  const auto backend = create_backend("mpi", config);
  const Device device{DeviceType::cuda, 1};
  Tensor memory = Tensor::of({1.0F, 2.0F, 3.0F, 4.0F}), result{DataType::f32, {4}};
  const TensorView in{memory.data(), DataType::f32, {2, 2}, {}, device};
  const TensorView out{result.data(), DataType::f32, {2, 2}, {1, 2}, device};
  backend->all_reduce(in, out, ReduceOp::average);
  EXPECT_EQ(result, Tensor::of({1.0F, 3.0F, 2.0F, 4.0F}));
  backend->start_broadcast(in, 0).wait();
  const Work sent = backend->start_send(in, 0);
  backend->receive(out, 0);
  sent.wait();
  EXPECT_EQ(result, Tensor::of({1.0F, 3.0F, 2.0F, 4.0F}));
  backend->close();
  EXPECT_EQ(live_objects(), 0) << "pinned memory is given back";
}

}  // namespace
}  // namespace capstan
