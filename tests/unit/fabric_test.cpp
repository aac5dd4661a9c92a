// SPDX-License-Identifier: Apache-2.0

// Modelled networks: their descriptions, links and routes.

#include "core/schedule/simulation/fabric.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "capstan/error.hpp"

namespace capstan {
namespace {

using ::testing::HasSubstr;

/// In a torus a message goes the shortest way round each dimension.
TEST(Simulation, RoutesInATorusAreTheShortest) {
  const auto fabric = make_fabric(parse_fabric("torus:dims=4x5x3"), 60);
  const auto round = [](int from, int to, int length) {
    const int right = (to - from + length) % length;
    return std::min(right, length - right);
  };
  for (int from = 0; from < 60; ++from)
    for (int to = 0; to < 60; ++to) {
      std::vector<int> way;
      fabric->route(from, to, way);
      const int hops = round(from % 4, to % 4, 4) + round(from / 4 % 5, to / 4 % 5, 5) +
                       round(from / 20, to / 20, 3);
      EXPECT_EQ(static_cast<int>(way.size()), hops + 2) << from << " to " << to;
    }
}

TEST(Simulation, EveryRouteLeadsFromPortToPort) {
  for (const char* text :
       {"flat", "fat-tree:radix=4", "fat-tree:radix=6,oversubscription=3",
        "dragonfly:routers=3,hosts=2", "torus:dims=4x5x3", "torus", "rail:radix=4"}) {
    const auto fabric = make_fabric(parse_fabric(text), 60, 4);
    std::set<std::string> names;
    for (int link = 0; link < fabric->links(); ++link) names.insert(fabric->name_of(link));
    EXPECT_EQ(static_cast<int>(names.size()), fabric->links()) << text << ": names are different";
    for (int from = 0; from < 60; ++from)
      for (int to = 0; to < 60; ++to) {
        std::vector<int> way;
        fabric->route(from, to, way);
        EXPECT_EQ(way.front(), from);
        EXPECT_EQ(way.back(), 60 + to);
        for (std::size_t i = 1; i + 1 < way.size(); ++i) {
          EXPECT_GE(way[i], 120) << text;
          EXPECT_LT(way[i], fabric->links()) << text;
        }
        EXPECT_EQ(std::set<int>(way.begin(), way.end()).size(), way.size()) << "no link twice";
      }
  }
}

TEST(Simulation, DescriptionsOfNetworksAreReadOrRefusedByColumn) {
  EXPECT_EQ(parse_fabric("torus:dims=8x4x2,bandwidth=12.5").dims, (std::vector<int>{8, 4, 2}));
  const auto message = [](const std::string& text) -> std::string {
    try {
      parse_fabric(text);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message("clos"), HasSubstr("column 1: no network is called 'clos': there are flat"));
  EXPECT_THAT(message("flat:latency=3,bandwidth=1,latency=4"),
              HasSubstr("column 28: 'latency' stands here a second time"));
  EXPECT_THAT(message("flat:speed=3"), HasSubstr("column 6: 'speed' is no property of a network"));
  EXPECT_THAT(message("flat:latency=fast"), HasSubstr("column 14: 'fast' is not a number"));
  EXPECT_THAT(message("torus:dims=4x0"), HasSubstr("column 14: '0' is not a whole number"));
  EXPECT_THROW(make_fabric(parse_fabric("torus:dims=4x4"), 15), InvalidArgument);
}

}  // namespace
}  // namespace capstan
