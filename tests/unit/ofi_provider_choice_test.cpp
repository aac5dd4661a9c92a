// SPDX-License-Identifier: Apache-2.0

// The choice among libfabric's providers, and its reasons. Needs no libfabric.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transports/ofi/provider_choice.hpp"

namespace capstan::ofi {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Candidate candidate(std::string provider, std::string domain = "eth0") {
  Candidate result;
  result.provider = std::move(provider);
  result.domain = std::move(domain);
  result.messages = result.tagged = result.remote_writes = true;
  return result;
}

OfiOptions asking_for(std::string provider, std::string domain = "") {
  OfiOptions options;
  options.provider = std::move(provider);
  options.domain = std::move(domain);
  return options;
}

TEST(OfiProviderChoice, PrefersHardwareToTcpWhereverItIsListed) {
  const std::vector all{candidate("tcp;ofi_rxm"), candidate("sockets"),
                        candidate("verbs;ofi_rxm", "mlx5_0"), candidate("udp;ofi_rxd")};
  const Choice choice = choose_provider(all, {});
  EXPECT_THAT(choice.ranking, ElementsAre(2, 0));
  EXPECT_THAT(choice.reason, AllOf(HasSubstr("verbs;ofi_rxm on mlx5_0"), HasSubstr("hardware")));
}

TEST(OfiProviderChoice, PrefersANetworksOwnProviderToVerbs) {
  for (const std::string best : {"cxi", "efa", "psm3", "psm2", "opx"}) {
    const std::vector all{candidate("verbs;ofi_rxm", "rdma0"), candidate(best, "own0")};
    EXPECT_THAT(choose_provider(all, {}).ranking, ElementsAre(1, 0)) << best;
  }
}

TEST(OfiProviderChoice, TakesWhatIsSlowOrLocalOnlyWhenAskedTo) {
  const std::vector all{candidate("shm", "shm"), candidate("sockets"), candidate("udp;ofi_rxd"),
                        candidate("net"), candidate("brand-new")};
  const Choice choice = choose_provider(all, {});
  EXPECT_THAT(choice.ranking, IsEmpty());
  EXPECT_THAT(choice.reason, AllOf(HasSubstr("chooses by itself"), HasSubstr("shm on shm"),
                                   HasSubstr("sockets on eth0"), HasSubstr("brand-new on eth0")));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Choice asked = choose_provider(all, asking_for(all[i].provider));
    EXPECT_EQ(asked.ranking.at(0), i);
    EXPECT_THAT(asked.reason, HasSubstr("asked for"));
  }
}

TEST(OfiProviderChoice, ANameMayLeaveOutTheLayerOnTop) {
  const std::vector all{candidate("net"), candidate("tcp;ofi_rxm")};
  EXPECT_THAT(choose_provider(all, asking_for("tcp")).ranking, ElementsAre(1));
  EXPECT_THAT(choose_provider(all, asking_for("tcp;ofi_rxm")).ranking, ElementsAre(1));
  EXPECT_THAT(choose_provider(all, asking_for("ofi_rxm")).ranking, IsEmpty());
}

TEST(OfiProviderChoice, AWrongNameIsAnsweredByAllThatThereAre) {
  const std::vector all{candidate("tcp;ofi_rxm", "eth0"), candidate("tcp;ofi_rxm", "lo"),
                        candidate("shm", "shm")};
  const Choice choice = choose_provider(all, asking_for("vrebs"));
  EXPECT_THAT(choice.ranking, IsEmpty());
  EXPECT_THAT(choice.reason, AllOf(HasSubstr("\"vrebs\""), HasSubstr("tcp;ofi_rxm on eth0"),
                                   HasSubstr("tcp;ofi_rxm on lo"), HasSubstr("shm on shm")));
}

TEST(OfiProviderChoice, AWrongDomainIsNamedToo) {
  const std::vector all{candidate("tcp;ofi_rxm", "eth0")};
  EXPECT_THAT(choose_provider(all, asking_for("tcp", "eth7")).reason,
              AllOf(HasSubstr("\"eth7\""), HasSubstr("tcp;ofi_rxm on eth0")));
}

TEST(OfiProviderChoice, TheDomainThatWasAskedForWins) {
  const std::vector all{candidate("verbs;ofi_rxm", "mlx5_0"), candidate("tcp;ofi_rxm", "eth0"),
                        candidate("tcp;ofi_rxm", "eth1")};
  const Choice choice = choose_provider(all, asking_for("", "eth1"));
  EXPECT_THAT(choice.ranking, ElementsAre(2));
  EXPECT_THAT(choice.reason, HasSubstr("domain that was asked for"));
}

TEST(OfiProviderChoice, AddressesThatOtherHostsCannotUseComeLast) {
  Candidate loopback = candidate("tcp;ofi_rxm", "lo");
  loopback.loopback = true;
  Candidate link_local = candidate("tcp;ofi_rxm", "eth0");
  link_local.link_local = true;
  const std::vector all{loopback, link_local, candidate("tcp;ofi_rxm", "eth0")};
  EXPECT_THAT(choose_provider(all, {}).ranking, ElementsAre(2, 1, 0));
}

TEST(OfiProviderChoice, AmongEqualsTheFasterThenTheFirstListedWins) {
  Candidate fast = candidate("verbs;ofi_rxm", "mlx5_2");
  fast.gigabits = 400;
  const std::vector all{candidate("verbs;ofi_rxm", "mlx5_0"), candidate("verbs;ofi_rxm", "mlx5_1"),
                        fast};
  EXPECT_THAT(choose_provider(all, {}).ranking, ElementsAre(2, 0, 1));
}

TEST(OfiProviderChoice, WhatCannotDoWhatIsNeededIsLeftOut) {
  Candidate no_messages = candidate("efa", "efa0");
  no_messages.messages = false;
  Candidate no_writes = candidate("cxi", "cxi0");
  no_writes.remote_writes = false;
  Candidate no_tags = candidate("psm3", "psm0");
  no_tags.tagged = false;
  const std::vector all{no_messages, no_writes, no_tags};

  OfiOptions options;
  EXPECT_THAT(choose_provider(all, options).ranking, ElementsAre(1, 2));
  options.pushes = OfiPushes::write;
  EXPECT_THAT(choose_provider(all, options).ranking, ElementsAre(2));
  options.pushes = OfiPushes::messages;
  EXPECT_THAT(choose_provider(all, options).ranking, ElementsAre(1));
  options.domain = "psm0";
  EXPECT_THAT(choose_provider(all, options).reason, HasSubstr("with tagged messages"));
}

TEST(OfiProviderChoice, MessagesAreReadWhereANetworkCardDoesIt) {
  const auto reads = [](const char* provider, bool can, bool by_software) {
    Candidate one = candidate(provider);
    one.remote_reads = can;
    OfiOptions options;
    options.reads_by_software = by_software;
    return reads_memory(one, options);
  };
  for (const char* provider : {"cxi", "efa", "opx", "psm3", "verbs;ofi_rxm"}) {
    EXPECT_TRUE(reads(provider, true, false)) << provider;
    EXPECT_FALSE(reads(provider, false, false)) << provider;
  }
  for (const char* provider : {"tcp;ofi_rxm", "net", "sockets", "udp;ofi_rxd", "shm", "unknown"}) {
    EXPECT_FALSE(reads(provider, true, false)) << provider;
    EXPECT_TRUE(reads(provider, true, true)) << provider;
  }
}

TEST(OfiProviderChoice, KeepsToTheInterfaceThatIsAskedFor) {
  std::vector all{candidate("tcp;ofi_rxm", "eth0"), candidate("tcp;ofi_rxm", "eth1"),
                  candidate("efa", "efa0")};
  all[0].elsewhere = true;
  OfiOptions options = asking_for("tcp");
  options.interface = "eth1";
  EXPECT_THAT(choose_provider(all, options).ranking, ElementsAre(1));
  all[1].elsewhere = true;
  EXPECT_THAT(choose_provider(all, options).reason, HasSubstr("at \"eth1\""));
  options.provider = "";
  EXPECT_THAT(choose_provider(all, options).ranking, ElementsAre(2)) << "it has no IP address";
}

TEST(OfiProviderChoice, NothingAtAllIsAReasonOfItsOwn) {
  const Choice choice = choose_provider({}, asking_for("tcp"));
  EXPECT_THAT(choice.ranking, IsEmpty());
  EXPECT_THAT(choice.reason, AllOf(HasSubstr("finds no provider"), Not(HasSubstr("offers"))));
}

}  // namespace
}  // namespace capstan::ofi
