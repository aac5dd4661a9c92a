// SPDX-License-Identifier: Apache-2.0

// The backend over MPI, without a launcher and without MPI being initialised.

#include "capstan/backends/mpi.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "capstan/backends/factory.hpp"
#include "tests/processes/processes.hpp"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const int plugins_are_here = ::setenv("CAPSTAN_PLUGINS", PLUGINS, 0);

/// The findings of a child about the backend mpi, with this environment and before its command.
CommandResult availability(const std::vector<std::pair<std::string, std::string>>& environment = {},
                           std::vector<std::string> before = {}) {
  before.insert(before.end(), {WORKER_PROGRAM, "--availability", "mpi"});
  return run_command(before, environment);
}

bool is_loaded(const char* library) {
  return ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD) != nullptr;
}

#define SKIP_WITHOUT_MPI()                              \
  if (!BackendRegistry::instance().is_available("mpi")) \
  GTEST_SKIP() << BackendRegistry::instance().availability("mpi").reason

TEST(Requirement, M38_ThePriorityOfMpiIs50) {
  EXPECT_EQ(BackendRegistry::instance().priority("mpi"), 50);
  EXPECT_GT(BackendRegistry::instance().priority("capstan"), 50);
}

TEST(Requirement, M42_MpiIsLoadedAtRunTime) {
  EXPECT_FALSE(is_loaded("libmpi.so.40") || is_loaded("libmpich.so.12")) << "nothing links it";
  SKIP_WITHOUT_MPI();
  EXPECT_TRUE(is_loaded("libmpi.so.40") || is_loaded("libmpich.so.12"));
}

TEST(Requirement, M40_WithoutMpiCreationThrowsReasonAndRemedy) {
  const auto found = availability({{"CAPSTAN_PLUGINS", "/proc/nowhere"}});
  EXPECT_THAT(found.output,
              AllOf(HasSubstr("mpi is not available"), HasSubstr("/proc/nowhere"),
                    HasSubstr("create: the backend 'mpi' is not available"),
                    HasSubstr("install Open MPI or MPICH"), HasSubstr("auto gives capstan")));
}

TEST(Requirement, M68_TheFactoryIsTriedWithAndWithoutMpi) {
  SKIP_WITHOUT_MPI();
  EXPECT_THAT(availability().output, HasSubstr("mpi is available"));
  // A child that sees an empty file in place of each library of MPI.
  const std::string hide =
      "for l in /usr/lib/*/libmpi.so.40 /usr/lib/*/libmpich.so.12; do"
      " f=$(readlink -f $l); test ! -e $f || mount --bind /dev/null $f || exit 77; done;"
      " exec \"$@\"";
  const auto hidden =
      availability({}, {"unshare", "--user", "--map-root-user", "--mount", "sh", "-c", hide, "sh"});
  if (hidden.status == 77 || hidden.output.find("unshare") == 0)
    GTEST_SKIP() << "namespaces cannot be made here: " << hidden.output;
  EXPECT_THAT(hidden.output, AllOf(HasSubstr("mpi is not available"), HasSubstr("libmpi"),
                                   HasSubstr("file too short")));
}

TEST(Requirement, M41_TheLaunchersVariablesChooseTheLibrary) {
  SKIP_WITHOUT_MPI();
  const std::filesystem::path plugins = PLUGINS;
  if (!exists(plugins / "libcapstan_mpi_openmpi.so") ||
      !exists(plugins / "libcapstan_mpi_mpich.so"))
    GTEST_SKIP() << "not both of Open MPI and MPICH are here";
  EXPECT_THAT(availability({{"OMPI_COMM_WORLD_SIZE", "1"}}).output, HasSubstr("by Open MPI"));
  EXPECT_THAT(availability({{"PMI_RANK", "0"}}).output, HasSubstr("by MPICH"));
}

TEST(Requirement, M53_CudaAwareMpiIsUsedByDefault) {
  EXPECT_TRUE(MpiConfig{}.use_cuda_aware_mpi);
  EXPECT_FALSE(MpiConfig::from_options({{"use_cuda_aware_mpi", "0"}}).use_cuda_aware_mpi);
}

TEST(Requirement, M54_TheThreadLevelIsFunneledByDefault) {
  EXPECT_EQ(MpiConfig{}.thread_level, 1);
  EXPECT_THROW(MpiConfig::from_options({{"thread_level", "4"}}), InvalidArgument);
}

TEST(Requirement, M55_ProfilingIsOffByDefault) {
  EXPECT_FALSE(MpiConfig{}.enable_profiling);
}

TEST(Requirement, M56_TheBufferSizeIs64KiBByDefault) {
  EXPECT_EQ(MpiConfig{}.buffer_size, 65536);
  EXPECT_EQ(MpiConfig::from_options({{"buffer_size", "4096"}}).buffer_size, 4096);
  EXPECT_THROW(MpiConfig::from_options({{"buffer_size", "x"}}), InvalidArgument);
}

TEST(Requirement, M57_TuningIsOffByDefault) {
  EXPECT_FALSE(MpiConfig{}.enable_tuning);
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

TEST(Requirement, M58_TuningSetsTheLibrarysVariables) {
  SKIP_WITHOUT_MPI();
  MpiConfig{}.apply();
  EXPECT_EQ(variable("I_MPI_ADJUST_ALLREDUCE"), "") << "nothing is set unless asked for";
  MpiConfig{.enable_tuning = true}.apply();
  EXPECT_EQ(variable("I_MPI_ADJUST_ALLREDUCE"), "2");
  EXPECT_TRUE(variable("OMPI_MCA_coll_tuned_allreduce_algorithm") == "6" ||
              variable("MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM") == "reduce_scatter_allgather");
}

TEST(Requirement, M59_ProfilingSetsTheLibrarysVariables) {
  SKIP_WITHOUT_MPI();
  ::setenv("I_MPI_STATS", "20", 1);
  MpiConfig{.enable_profiling = true}.apply();
  EXPECT_EQ(variable("I_MPI_STATS"), "20") << "what the user has set stays";
  ::unsetenv("I_MPI_STATS");
  MpiConfig{.enable_profiling = true}.apply();
  EXPECT_EQ(variable("I_MPI_STATS"), "1");
}

}  // namespace
}  // namespace capstan
