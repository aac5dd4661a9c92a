// SPDX-License-Identifier: Apache-2.0

// One rank of the tests of the backend over MPI, linked with an MPI library as a program of users
// may be.
//
//   mpirun -n 2 backends_mpi_ranks_LIBRARY            a backend initialises MPI and finalises it
//   mpirun -n 2 backends_mpi_ranks_LIBRARY --program  the program does

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>
#if defined OPEN_MPI && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <complex>
#include <thread>

#include "capstan/backends/factory.hpp"
#include "capstan/backends/mpi.hpp"
#include "core/extras/backends/mpi/library.hpp"
#include "tests/backends/contract.hpp"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

bool by_program = false;

BackendConfig bounded(std::map<std::string, std::string> options = {}) {
  BackendConfig config;
  config.timeout = std::chrono::seconds{60};
  config.options = std::move(options);
  return config;
}

std::unique_ptr<Backend> world() {
  return create_backend("mpi", bounded());
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

bool initialised() {
  int flag = 0;
  MPI_Initialized(&flag);
  return flag != 0;
}

// The first tests run before MPI is initialised.

TEST(Requirement, M39_AvailabilityIsFoundOutOnceAndNotByInitialising) {
  const bool before = initialised();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(BackendRegistry::instance().is_available("mpi"));
  EXPECT_EQ(initialised(), before);
}

TEST(Requirement, M52_WhetherMpiIsThereCanBeAskedWithoutStartingIt) {
  const bool before = initialised();
  EXPECT_FALSE(mpi_state().version.empty());
  EXPECT_EQ(mpi_state().initialised, before);
  EXPECT_EQ(initialised(), before);
}

TEST(Requirement, M66_ManyThreadsInitialiseMpiOnce) {
  int ranks = 1;
  if (by_program) MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (by_program || std::getenv("SEVERAL_RANKS")) GTEST_SKIP() << "for one rank, as a start";
  std::vector<std::jthread> threads;
  std::atomic<int> made = 0;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      try {
        made += create_backend("MPI", bounded({{"thread_level", "3"}}))->world_size();
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    });
  threads.clear();
  EXPECT_EQ(made, 8);
  EXPECT_TRUE(initialised());
}

TEST(Requirement, M1_TheContractHoldsOverMpi) {
  const auto backend = world();
  check_contract(*backend);
  backend->close();
  backend->close();
}

TEST(Requirement, M2_ItHasTheAsynchronousAndThePointToPointPart) {
  const auto backend = world();
  EXPECT_NE(backend->asynchronous(), nullptr);
  EXPECT_NE(backend->point_to_point(), nullptr);
}

TEST(Requirement, M4_ItsNameIsMpi) {
  EXPECT_EQ(world()->name(), "mpi");
}

TEST(Requirement, M8_MpiIsInitialisedOnceAndSharedWithTheProgram) {
  const auto first = world(), second = world();
  EXPECT_TRUE(initialised());
  EXPECT_EQ(mpi_state().initialised_here, !by_program);
  first->barrier();
  second->barrier();
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(Requirement, M9_TheWorldIsTheDefaultAndTheProgramMayGiveACommunicator) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm backwards;
  MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &backwards);
  const auto backend = make_mpi_backend(&backwards, bounded());
  EXPECT_EQ(backend->rank(), size - 1 - rank);
  MPI_Comm_free(&backwards);  // the backend has a duplicate
  Tensor data = Tensor::of({backend->rank()});
  backend->broadcast(data.view(), 0);
  EXPECT_EQ(data, Tensor::of({0}));
  EXPECT_EQ(world()->rank(), rank);
}

TEST(Requirement, M33_WhetherMpiIsCudaAwareCanBeAsked) {
  const auto backend = world();
#if defined OPEN_MPI && defined MPIX_CUDA_AWARE_SUPPORT || defined MPICH_VERSION
  EXPECT_EQ(mpi_state().cuda_aware, MPIX_Query_cuda_support() == 1);
#else
  EXPECT_FALSE(mpi_state().cuda_aware);
#endif
}

TEST(Requirement, M35_OperationsAreMpisAndOthersAreRefused) {
  const auto backend = world();
  Tensor data = Tensor::of({2.0F});
  const auto mine = Reducer::of<float>("mine", [](float a, float) { return a; });
  EXPECT_THAT(text_of<NotSupported>([&] { backend->all_reduce(data.view(), mine); }),
              AllOf(HasSubstr("mpi"), HasSubstr("operation of the program")));
  backend->all_reduce(data.view(), ReduceOp::product);
  EXPECT_EQ(data, Tensor::of({static_cast<float>(1 << backend->world_size())}));
}

TEST(Requirement, M43_ARankOutsideAGroupHasNoCommunicator) {
  const auto backend = world();
  const int first[] = {0};
  const auto group = backend->subgroup(first);
  EXPECT_EQ(group != nullptr, backend->rank() == 0);
}

template <class T>
void add_up(Backend& backend) {
  Tensor data = Tensor::of({static_cast<T>(backend.rank() + 1), T{}});
  backend.all_reduce(data.view());
  const int p = backend.world_size();
  EXPECT_EQ(data, Tensor::of({static_cast<T>(p * (p + 1) / 2), T{}})) << to_string(data);
}

TEST(Requirement, M44_AllTypesThatMpiHasAreAddedUp) {
  const auto backend = world();
  add_up<std::int8_t>(*backend);
  add_up<std::uint8_t>(*backend);
  add_up<std::int32_t>(*backend);
  add_up<std::uint32_t>(*backend);
  add_up<std::int64_t>(*backend);
  add_up<std::uint64_t>(*backend);
  add_up<float>(*backend);
  add_up<double>(*backend);
  add_up<std::complex<float>>(*backend);
  add_up<std::complex<double>>(*backend);
}

TEST(Requirement, M45_TypesThatMpiLacksAreRefusedByNameAndMovedAllTheSame) {
  const auto backend = world();
  using enum DataType;
  for (const DataType type : {f16, bf16, f8_e4m3, f8_e5m2}) {
    Tensor data{type, {3}};
    EXPECT_THAT(text_of<NotSupported>([&] { backend->all_reduce(data.view()); }),
                HasSubstr(std::string{name_of(type)}));
    data.data()[2] = std::byte{static_cast<unsigned char>(backend->rank() + 5)};
    backend->broadcast(data.view(), backend->world_size() - 1);
    EXPECT_EQ(data.data()[2], std::byte{static_cast<unsigned char>(backend->world_size() + 4)});
  }
}

TEST(Requirement, M46_AllOperationsThatMpiHasAreThere) {
  const auto backend = world();
  const std::int32_t p = backend->world_size(), r = backend->rank();
  std::int32_t folded_xor = 0, folded_or = 0;
  for (std::int32_t rank = 0; rank < p; ++rank) folded_xor ^= rank, folded_or |= rank;
  using enum ReduceOp;
  const std::vector<std::pair<ReduceOp, std::int32_t>> results{{sum, p * (p - 1) / 2},
                                                               {product, 0},
                                                               {min, 0},
                                                               {max, p - 1},
                                                               {average, (p - 1) / 2},
                                                               {bit_and, 0},
                                                               {bit_or, folded_or},
                                                               {bit_xor, folded_xor},
                                                               {logical_and, 0},
                                                               {logical_or, p > 1},
                                                               {logical_xor, (p - 1) % 2}};
  ASSERT_EQ(results.size(), all_reduce_ops().size());
  for (const auto& [op, expected] : results) {
    Tensor data = Tensor::of({r});
    backend->all_reduce(data.view(), op);
    EXPECT_EQ(data, Tensor::of({expected})) << name_of(op);
  }
}

TEST(Requirement, M47_TheStateOfMpiIsTold) {
  const auto backend = world();
  const MpiState state = mpi_state();
  EXPECT_TRUE(state.initialised);
  int level = -1;
  MPI_Query_thread(&level);
  EXPECT_EQ(state.thread_level, level) << "that was got";
  EXPECT_THAT(state.version, HasSubstr(state.library));
}

TEST(Requirement, M48_RankAndSizeAreMpis) {
  int rank = -1, size = -1;
  const auto backend = world();
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  EXPECT_EQ(backend->rank(), rank);
  EXPECT_EQ(backend->world_size(), size);
  BackendConfig other = bounded();
  other.world_size = size + 1;
  EXPECT_THROW((void)create_backend("mpi", other), InvalidArgument);
}

TEST(Requirement, M49_LongCallsGoThroughMpiInPieces) {
  const auto backend = create_backend("mpi", bounded({{"longest_count", "300"}}));
  const auto p = static_cast<std::size_t>(backend->world_size());
  const auto r = static_cast<std::size_t>(backend->rank());
  constexpr std::size_t block = 1001;
  std::vector<std::int32_t> mine(p * block), own(block), all(p * block);
  for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = static_cast<int>(i * (r + 1));
  const auto view = [](std::vector<std::int32_t>& of) {
    return TensorView{of.data(), {static_cast<std::int64_t>(of.size())}};
  };
  backend->reduce_scatter(view(mine), view(own));
  backend->all_gather(view(own), view(all));
  backend->all_reduce(view(mine));
  EXPECT_EQ(all, mine);
  EXPECT_EQ(mine.back(), static_cast<int>((mine.size() - 1) * p * (p + 1) / 2));
  backend->broadcast(view(all), 0);
  EXPECT_EQ(all, mine);
}

TEST(Requirement, M50_AMessageOfUnknownSizeIsTakenByAMatchedProbe) {
  const auto backend = world();
  const int p = backend->world_size(), next = (backend->rank() + 1) % p;
  Tensor mine{DataType::f64, {1000 + backend->rank()}};
  const Work sent = backend->start_send(mine.view(), next, 3);
  const Tensor got = backend->receive(DataType::f64, any_source, 3);
  EXPECT_EQ(got.count(), Elements{static_cast<std::uint64_t>(1000 + (next + p - 2 + p) % p)});
  sent.wait();
}

TEST(Requirement, M60_ErrorsOfMpiAreExceptionsWithTextCallAndRank) {
  const auto backend = world();
  Tensor data = Tensor::of({1.0F});
  const std::string rank = fmt::format("rank {}", backend->rank());
  EXPECT_THAT(
      text_of<NotSupported>([&] { backend->all_reduce(data.view(), ReduceOp::logical_and); }),
      AllOf(HasSubstr(rank), HasSubstr("all_reduce by logical_and of f32")))
      << "what would end the job is refused";
  char words[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(MPI_ERR_OP, words, &length);
  try {
    LoadedMpi::get().require(MPI_ERR_OP, rank + ": mpi: all_reduce(1 x f32)");
    FAIL();
  } catch (const BackendError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(rank), HasSubstr("all_reduce"), HasSubstr(words)));
    EXPECT_EQ(error.native_code(), MPI_ERR_OP);
    EXPECT_EQ(error.backend(), "mpi");
  }
  Tensor longer{DataType::f32, {9}};
  const Work sent = backend->start_send(longer.view(), backend->rank(), 1);
  EXPECT_THAT(text_of<Truncated>([&] { backend->receive(data.view(), backend->rank(), 1); }),
              AllOf(HasSubstr(rank), HasSubstr("receive(1 x f32"), HasSubstr("truncated")));
  sent.wait();
  backend->barrier();
}

TEST(Requirement, M77_WhatComesTooLateIsAnError) {
  const auto backend = world();
  EXPECT_THAT(text_of<InvalidArgument>([] { MpiConfig{.enable_tuning = true}.apply(); }),
              HasSubstr("too late"));
  EXPECT_THROW((void)create_backend("mpi", bounded({{"enable_profiling", "1"}})), InvalidArgument);
  EXPECT_NO_THROW(MpiConfig{}.apply());
}

TEST(Requirement, M36_ABackendThatIsClosedLeavesMpiToOthers) {
  for (int i = 0; i < 50; ++i) world()->barrier();
  int finalised = 1;
  MPI_Finalized(&finalised);
  EXPECT_FALSE(finalised);
}

TEST(MpiBackend, AWaitOfAnotherThreadNeedsTheLevel) {
  const auto backend = world();
  const Work work = backend->start_barrier();
  if (mpi_state().thread_level >= 2)
    EXPECT_EQ(work.future().wait_for(std::chrono::seconds{60}), std::future_status::ready);
  else
    EXPECT_THAT(text_of<NotSupported>([&] { (void)work.future(); }), HasSubstr("thread_level=2"));
  work.wait();
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  ::setenv("CAPSTAN_PLUGINS", PLUGINS, 0);
  capstan::by_program = argc > 1 && std::string_view{argv[1]} == "--program";
  int level = 0;
  if (capstan::by_program) MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  const int result = RUN_ALL_TESTS();
  if (capstan::by_program) MPI_Finalize();
  return result;  // exit() finalises MPI if a backend has initialised it
}
