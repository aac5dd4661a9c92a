// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

#include "capstan/error.hpp"
#include "core/bootstrap/launchers/job_identity.hpp"
#include "core/bootstrap/launchers/launch.hpp"
#include "core/bootstrap/method.hpp"
#include "tests/bootstrap/launch_variables.hpp"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Launch, NothingIsAWorldOfOne) {
  const Launch launch = detect({{"PATH", "/bin"}, {"RANK", "a rank of something else"}});
  expect_place(launch, 0, 1, 0, 1);
  EXPECT_FALSE(launch.store);
}

TEST(Launch, CapstanRun) {
  const Launch launch = detect(capstan_run);
  expect_place(launch, 3, 8, 1, 4);
  EXPECT_EQ(launch.launcher, "capstan run");
  ASSERT_TRUE(launch.store);
  EXPECT_EQ(launch.store->endpoint, SocketEndpoint(TcpEndpoint{"::1", 4711}));
  EXPECT_TRUE(launch.store->hosted_by_launcher);
  EXPECT_EQ(launch.store->secret.bytes(), Secret::from_text("0123456789abcdef").bytes());
}

TEST(Launch, CapstanRunMayServeALocalSocket) {
  const Launch launch = detect(with(capstan_run, {{"CAPSTAN_STORE", "@capstan-run-1"}}));
  EXPECT_EQ(launch.store->endpoint, SocketEndpoint(AbstractEndpoint{"capstan-run-1"}));
}

TEST(Launch, CapstanRunNeedsAStoreForMoreThanOneRank) {
  EXPECT_THAT(complaint(without(capstan_run, "CAPSTAN_STORE")), HasSubstr("CAPSTAN_STORE"));
  EXPECT_EQ(detect({{"CAPSTAN_RANK", "0"}, {"CAPSTAN_SIZE", "1"}}).size, 1);
}

TEST(Launch, OpenMpi) {
  const Launch launch = detect(open_mpi);
  expect_place(launch, 2, 4, 2, 4);
  EXPECT_EQ(launch.launcher, "Open MPI");
  EXPECT_THAT(launch.job, HasSubstr("2113404929"));
  EXPECT_FALSE(launch.store);
  const auto older = with(without(open_mpi, "PMIX_NAMESPACE"), {{"OMPI_MCA_ess_base_jobid", "88"}});
  EXPECT_THAT(detect(older).job, HasSubstr("88"));
  EXPECT_THAT(detect(without(open_mpi, "PMIX_NAMESPACE")).job,
              HasSubstr(launcher_process_identity()));
}

TEST(Launch, Mpich) {
  const Launch launch = detect(mpich);
  expect_place(launch, 1, 2, 1, 2);
  EXPECT_EQ(launch.launcher, "MPICH");
  EXPECT_THAT(launch.job, HasSubstr(launcher_process_identity()));
}

TEST(Launch, Torchrun) {
  const Launch launch = detect(torchrun);
  expect_place(launch, 5, 8, 1, 4);
  EXPECT_EQ(launch.launcher, "torchrun");
  ASSERT_TRUE(launch.store);
  EXPECT_EQ(launch.store->endpoint, SocketEndpoint(TcpEndpoint{"node0", 29501}))
      << "the agent has 29500";
  EXPECT_FALSE(launch.store->hosted_by_launcher);
  const auto other = with(torchrun, {{"TORCHELASTIC_RUN_ID", "another"}});
  EXPECT_NE(detect(other).job, launch.job);
  EXPECT_NE(detect(other).store->secret.bytes(), launch.store->secret.bytes());
}

TEST(Launch, TorchrunNeedsASecretUnlessTheNetworkIsTrusted) {
  const auto untrusted = without(torchrun, "CAPSTAN_TRUSTED_NETWORK");
  EXPECT_THAT(complaint(untrusted),
              AllOf(HasSubstr("rank 5: join at node0:29501"), HasSubstr("CAPSTAN_SECRET"),
                    HasSubstr("CAPSTAN_TRUSTED_NETWORK=1")));
  EXPECT_THAT(complaint(with(torchrun, {{"CAPSTAN_TRUSTED_NETWORK", "yes"}})),
              HasSubstr("\"yes\""));
  for (const char* remote : {"10.0.0.7", "fd00::7", "127.example.com"})
    EXPECT_THAT(complaint(with(untrusted, {{"MASTER_ADDR", remote}})),
                HasSubstr("without a secret"));
  for (const char* local : {"127.0.0.1", "[::1]", "localhost"})
    EXPECT_TRUE(detect(with(untrusted, {{"MASTER_ADDR", local}})).store) << local;
  const auto secret = with(untrusted, {{"CAPSTAN_SECRET", "0123456789abcdef"}});
  EXPECT_EQ(detect(secret).store->secret.bytes(), Secret::from_text("0123456789abcdef").bytes());
}

TEST(Launch, TorchrunOnOneHostMeetsAtALocalSocket) {
  const auto one_host = with(without(torchrun, "CAPSTAN_TRUSTED_NETWORK"),
                             {{"WORLD_SIZE", "6"}, {"LOCAL_WORLD_SIZE", "6"}, {"LOCAL_RANK", "5"}});
  EXPECT_FALSE(detect(one_host).store);
  EXPECT_EQ(choose_method(detect(one_host), Bootstrap::automatic).method, Method::this_host);
  EXPECT_TRUE(detect(with(one_host, {{"CAPSTAN_SECRET", "0123456789abcdef"}})).store);
}

TEST(Launch, TorchVariablesByHand) {
  const Variables by_hand{{"RANK", "1"},
                          {"WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "127.0.0.1"},
                          {"MASTER_PORT", "29500"},
                          {"CAPSTAN_SECRET", "0123456789abcdef"}};
  const Launch launch = detect(by_hand);
  expect_place(launch, 1, 2, -1, -1);
  EXPECT_EQ(std::get<TcpEndpoint>(launch.store->endpoint).port, 29500);
  EXPECT_EQ(launch.store->secret.bytes(), Secret::from_text("0123456789abcdef").bytes());
  EXPECT_THAT(complaint(without(by_hand, "MASTER_ADDR")), HasSubstr("MASTER_ADDR is not set"));
  EXPECT_THAT(complaint(without(by_hand, "WORLD_SIZE")), HasSubstr("WORLD_SIZE is not set"));
  EXPECT_THAT(complaint(with(by_hand, {{"MASTER_PORT", "65536"}})), HasSubstr("MASTER_PORT"));
  EXPECT_THAT(complaint(with(torchrun, {{"MASTER_PORT", "65535"}})), HasSubstr("65536"));
}

TEST(Launch, SlurmStep) {
  const Launch launch = detect(slurm);
  expect_place(launch, 4, 7, 0, 2);
  EXPECT_EQ(launch.job, "Slurm 77.1");
  const auto last_node = with(slurm, {{"SLURM_NODEID", "3"}, {"SLURM_PROCID", "6"}});
  EXPECT_EQ(detect(last_node).local_size, 1);
  EXPECT_EQ(detect(without(slurm, "SLURM_NODEID")).local_size, -1);
  EXPECT_EQ(detect(with(slurm, {{"SLURM_STEP_TASKS_PER_NODE", "2(x"}})).local_size, -1);
  EXPECT_EQ(detect(without(slurm, "SLURM_STEP_NUM_TASKS")).size, 7);
}

TEST(Launch, MasterMayBeAnIpv6AddressWithOrWithoutBrackets) {
  for (const char* address : {"fd00::7", "[fd00::7]"})
    EXPECT_EQ(detect(with(torchrun, {{"MASTER_ADDR", address}})).store->endpoint,
              SocketEndpoint(TcpEndpoint{"fd00::7", 29501}));
}

TEST(Launch, PmixIsTheLaunchersOwn) {
  const Variables pmix{{"PMIX_NAMESPACE", "a"}, {"PMIX_RANK", "4"}};
  EXPECT_TRUE(detect(with(slurm, pmix)).offers_pmix);
  EXPECT_FALSE(detect(slurm).offers_pmix);
  EXPECT_FALSE(detect(open_mpi).offers_pmix) << "the rank is not set";
  EXPECT_TRUE(detect(with(open_mpi, {{"PMIX_RANK", "2"}})).offers_pmix);
  EXPECT_FALSE(detect(with(open_mpi, {{"PMIX_RANK", "1"}})).offers_pmix) << "an outer launcher's";
  EXPECT_FALSE(detect(with(torchrun, pmix)).offers_pmix);
}

TEST(Launch, PmiIsTheLaunchersOwn) {
  EXPECT_FALSE(detect(mpich).pmi);
  const auto hydra = detect(with(mpich, {{"PMI_FD", "8"}})).pmi;
  ASSERT_TRUE(hydra);
  EXPECT_EQ(hydra->descriptor, 8);
  EXPECT_TRUE(hydra->survives_a_second_start);
  const auto port = detect(with(mpich, {{"PMI_PORT", "node0:4711"}, {"PMI_ID", "1"}})).pmi;
  ASSERT_TRUE(port);
  EXPECT_EQ(port->port, (TcpEndpoint{"node0", 4711}));
  EXPECT_EQ(port->id, 1);
  const auto srun = with(slurm, {{"PMI_FD", "11"}, {"PMI_RANK", "4"}, {"PMI_SIZE", "7"}});
  ASSERT_TRUE(detect(srun).pmi);
  EXPECT_FALSE(detect(srun).pmi->survives_a_second_start);
  EXPECT_THAT(complaint(with(srun, {{"PMI_RANK", "3"}})), HasSubstr("SLURM_PROCID=4"));
  EXPECT_FALSE(detect(with(torchrun, {{"PMI_FD", "8"}, {"PMI_RANK", "5"}})).pmi);
  for (const char* wrong : {"x", "-1", ""})
    EXPECT_THAT(complaint(with(mpich, {{"PMI_FD", wrong}})), HasSubstr("PMI_FD"));
  EXPECT_THAT(complaint(with(mpich, {{"PMI_PORT", "node0"}, {"PMI_ID", "1"}})),
              HasSubstr("PMI_PORT"));
  EXPECT_THAT(complaint(with(mpich, {{"PMI_PORT", "node0:1"}})), HasSubstr("PMI_ID is not set"));
}

TEST(Launch, MpichOnSeveralHostsIsOneJobThroughItsStore) {
  const Variables store{{"CAPSTAN_STORE", "node0:4711"}, {"CAPSTAN_SECRET", "0123456789abcdef"}};
  EXPECT_EQ(detect(with(mpich, store)).job, "MPICH at node0:4711");
}

TEST(Launch, SlurmBatchScriptIsNoStep) {
  const Variables batch{{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}};
  EXPECT_EQ(detect(with(without(slurm, "SLURM_STEP_ID"), batch)).launcher, "none");
}

TEST(Launch, Precedence) {
  const Variables by_hydra{{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}};
  const auto all = with(with(with(open_mpi, mpich), by_hydra), slurm);
  const Variables there{{"CAPSTAN_RANK", "2"}, {"CAPSTAN_SIZE", "4"}};
  EXPECT_EQ(detect(with(all, with(capstan_run, there))).launcher, "capstan run");
  EXPECT_EQ(detect(all).launcher, "Open MPI");
  EXPECT_EQ(detect(with(mpich, slurm)).launcher, "MPICH");
  EXPECT_EQ(detect(with(without(torchrun, "TORCHELASTIC_RUN_ID"), slurm)).launcher, "torchrun");
  EXPECT_EQ(detect(with(open_mpi, torchrun)).launcher, "torchrun")
      << "torchrun's own ranks, though mpirun started torchrun";
  const Variables pmi2{{"PMI_RANK", "4"}, {"PMI_SIZE", "7"}};
  EXPECT_EQ(detect(with(slurm, pmi2)).launcher, "Slurm") << "srun --mpi=pmi2";
}

TEST(Launch, NamedStoreIsHostedByRankZeroUnderOtherLaunchers) {
  const Variables store{{"CAPSTAN_STORE", "node0:4711"}, {"CAPSTAN_SECRET", "0123456789abcdef"}};
  for (const auto& launcher : {open_mpi, mpich, slurm, torchrun}) {
    const Launch launch = detect(with(launcher, store));
    ASSERT_TRUE(launch.store);
    EXPECT_EQ(launch.store->endpoint, SocketEndpoint(TcpEndpoint{"node0", 4711}))
        << launch.launcher;
    EXPECT_FALSE(launch.store->hosted_by_launcher);
  }
}

TEST(Launch, NamedStoreNeedsASecretAndARank) {
  const Variables store{{"CAPSTAN_STORE", "node0:4711"}};
  EXPECT_THAT(complaint(with(open_mpi, store)),
              AllOf(HasSubstr("CAPSTAN_SECRET is not set"), HasSubstr("openssl rand")));
  EXPECT_THAT(complaint(with(open_mpi, with(store, {{"CAPSTAN_SECRET", "hunter2"}}))),
              AllOf(HasSubstr("too short"), ::testing::Not(HasSubstr("hunter2"))));
  EXPECT_THAT(complaint(store), HasSubstr("which rank"));
  EXPECT_THAT(complaint(with(capstan_run, {{"CAPSTAN_STORE", "nonsense"}})),
              AllOf(HasSubstr("CAPSTAN_STORE"), HasSubstr("nonsense")));
}

struct Malformed {
  Variables variables;
  std::string name;
  std::string value;
};

class MalformedLaunch : public ::testing::TestWithParam<Malformed> {};

/// The variable, its bad value and what to do are all in the message.
TEST_P(MalformedLaunch, IsNamed) {
  const auto& [variables, name, value] = GetParam();
  EXPECT_THAT(complaint(with(variables, {{name, value}})),
              AllOf(HasSubstr(name), HasSubstr(value), HasSubstr(":")));
}

std::vector<Malformed> malformed() {
  struct Known {
    Variables variables;
    std::vector<std::string> rank_size_local;
  };
  const std::vector<Known> launchers{
      {capstan_run, {"CAPSTAN_RANK", "CAPSTAN_SIZE", "CAPSTAN_LOCAL_RANK", "CAPSTAN_LOCAL_SIZE"}},
      {open_mpi, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"}},
      {mpich, {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}},
      {torchrun, {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}},
      {slurm, {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"}}};
  std::vector<Malformed> cases;
  for (const auto& [variables, names] : launchers) {
    for (const auto& name : names) {
      for (const char* value : {"x", "-1", "1x", "1.5", "99999999999", " 1", "0x1"}) {
        cases.push_back({variables, name, value});
      }
    }
    cases.push_back({variables, names[0], "1000"});  // beyond the size
    cases.push_back({variables, names[1], "0"});
    cases.push_back({variables, names[2], "1000"});
  }
  // Slurm's local rank can be judged only where the number of tasks on the node is known.
  return cases;
}

INSTANTIATE_TEST_SUITE_P(AllLaunchers, MalformedLaunch, ::testing::ValuesIn(malformed()));

TEST(Launch, MissingHalfIsNamed) {
  EXPECT_THAT(complaint({{"CAPSTAN_RANK", "0"}}), HasSubstr("CAPSTAN_SIZE is not set"));
  EXPECT_THAT(complaint({{"CAPSTAN_SIZE", "2"}}), HasSubstr("CAPSTAN_RANK is not set"));
  EXPECT_THAT(complaint({{"OMPI_COMM_WORLD_RANK", "0"}}),
              HasSubstr("OMPI_COMM_WORLD_SIZE is not set"));
  EXPECT_THAT(complaint({{"PMI_SIZE", "2"}}), HasSubstr("PMI_RANK is not set"));
  EXPECT_THAT(complaint({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}}),
              HasSubstr("SLURM_NTASKS is not set"));
  EXPECT_THAT(complaint({{"OMPI_COMM_WORLD_RANK", ""}, {"OMPI_COMM_WORLD_SIZE", "1"}}),
              HasSubstr("OMPI_COMM_WORLD_RANK is not set"));
}

TEST(JobIdentity, AncestorsTellWhatTheyHaveMapped) {
  const std::string library = mapped_by_ancestor("libc.so.6");
  EXPECT_TRUE(library.starts_with("/") && library.ends_with("/libc.so.6")) << library;
  EXPECT_EQ(mapped_by_ancestor("libnobody-has-it.so"), "");
}

TEST(JobIdentity, SiblingsShareIt) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  for (int i = 0; i < 2; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto identity = launcher_process_identity();
      ::_exit(::write(ends[1], (identity + "\n").data(), identity.size() + 1) > 0 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  ::close(ends[1]);
  std::string text(1000, '\0');
  text.resize(static_cast<std::size_t>(::read(ends[0], text.data(), text.size())));
  ::close(ends[0]);
  const auto middle = text.find('\n');
  ASSERT_NE(middle, std::string::npos);
  EXPECT_GT(middle, 0u);
  EXPECT_EQ(text.substr(0, middle + 1), text.substr(middle + 1));
}

}  // namespace
}  // namespace capstan
