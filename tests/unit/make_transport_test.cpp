// SPDX-License-Identifier: Apache-2.0
#include "core/engine/world/make_transport.hpp"

#include <gtest/gtest.h>

namespace capstan {
namespace {

TEST(Links, EqualIdentitiesAreOneHost) {
  EXPECT_EQ(hosts_of({"a", "b", "a"}, {}), Hosts(std::vector{0, 1, 0}));
  EXPECT_TRUE(hosts_of({"a", "a"}, {}).single());
}

TEST(Links, HostsMayBePretended) {
  Settings settings;
  settings.virtual_hosts = 2;
  EXPECT_EQ(hosts_of({"a", "a", "a", "a"}, settings), Hosts(std::vector{0, 0, 1, 1}));
  settings.faults = "seed=1,delay=0.1";
  EXPECT_EQ(hosts_of({"a", "a"}, settings).count(), 2) << "each rank is alone then";
}

TEST(Links, RdmaIsLookedForWhereItDecidesSomething) {
  Settings settings;
  const Hosts two{std::vector{0, 1}};
  EXPECT_TRUE(network_depends_on_rdma(two, settings));
  EXPECT_FALSE(network_depends_on_rdma(2, settings)) << "on one host";
  settings.network = Network::tcp;
  EXPECT_FALSE(network_depends_on_rdma(two, settings)) << "it is chosen";
}

TEST(Links, RanksOfAHostTakeItsDevicesInTurn) {
  Settings settings;
  EXPECT_EQ(settings_at(1, settings).rdma_devices, "");
  settings.rdma_devices = "mlx5_0,mlx5_1:2";
  EXPECT_EQ(settings_at(0, settings).rdma_devices, "mlx5_0");
  EXPECT_EQ(settings_at(1, settings).rdma_devices, "mlx5_1:2");
  EXPECT_EQ(settings_at(2, settings).rdma_devices, "mlx5_0");
  EXPECT_EQ(settings_at(1, settings_at(1, settings)).rdma_devices, "mlx5_1:2");
}

TEST(Links, NoRdmaWithoutTheDeviceThatIsAskedFor) {
  Settings settings;
  settings.rdma_devices = "no_such_device";
  EXPECT_FALSE(has_rdma(settings));
}

}  // namespace
}  // namespace capstan
