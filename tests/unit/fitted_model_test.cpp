// SPDX-License-Identifier: Apache-2.0

// The model fitted to a machine: what a fit finds, how profiles keep it, and what it changes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "capstan/error.hpp"
#include "core/engine/run/machine_view.hpp"
#include "core/profiles/find_profile.hpp"
#include "core/profiles/fit_model.hpp"
#include "core/profiles/judge_profile.hpp"
#include "core/schedule/selection/selector.hpp"
#include "tests/unit/measured_cells.hpp"

namespace capstan {
namespace {

using ::testing::HasSubstr;

std::size_t index_of(std::string_view factor) {
  const auto found = std::ranges::find(model_factors(), factor, &ModelFactor::name);
  return static_cast<std::size_t>(found - model_factors().begin());
}

ModelScale scale_of(std::initializer_list<std::pair<std::string_view, double>> factors) {
  ModelScale scale;
  for (const auto& [name, factor] : factors) scale.factors.at(index_of(name)) = factor;
  return scale;
}

/// A machine on which each candidate takes what `model` predicts.
MeasuredGroup measured_by(const Hosts& hosts, const LinkModel& model) {
  MeasuredGroup group{.ranks = hosts.ranks(), .hosts = hosts.count(), .cells = {}};
  for (const std::uint64_t bytes : {8, 512, 8 << 10, 256 << 10, 4 << 20}) {
    MeasuredCell cell{Collective::all_reduce, hosts.ranks(), hosts.count(), Bytes{bytes}, 1};
    for (const Candidate& each : candidates_for(measured_call(cell), hosts, SumOrder::any, model))
      cell.ways.push_back({each.algorithm, each.protocol, 1, each.nanoseconds, 0.02});
    std::ranges::sort(cell.ways, {}, &MeasuredWay::nanoseconds);
    group.cells.push_back(cell);
  }
  return group;
}

double error_of(const MeasuredGroup& group, const Hosts& hosts, const LinkModel& model) {
  return judge(group, hosts, model).median_error();
}

TEST(FitModel, FindsAnotherMachine) {
  const LinkModel usual{.reads_peers = true};
  const ModelScale machine = scale_of({{"flags", 0.2}, {"staging-reads", 3}, {"kernel-calls", 4}});
  const MeasuredGroup group = measured_by(2, machine.applied(usual));
  const ModelScale found = fit_model(group.cells, 2, usual);
  EXPECT_GT(error_of(group, 2, usual), 0.3) << "the usual model";
  EXPECT_LT(error_of(group, 2, found.applied(usual)), 0.05);
  EXPECT_NEAR(std::log2(found.factors.at(index_of("kernel-calls"))), 2, 0.4);
}

/// A way is a little faster here than the model's choice. The errors of the others hide that.
TEST(FitModel, WeighsWhatChoicesLose) {
  const LinkModel usual{.reads_peers = true};
  MeasuredGroup group = measured_by(2, usual);
  std::erase_if(group.cells, [](const auto& cell) { return cell.bytes != Bytes{8 << 10}; });
  auto& ways = group.cells.front().ways;
  const auto other = std::ranges::find(ways, Protocol::write_output, &MeasuredWay::protocol);
  ASSERT_NE(other, ways.end());
  other->nanoseconds = ways.front().nanoseconds * 0.7;
  std::ranges::sort(ways, {}, &MeasuredWay::nanoseconds);
  const Judgement before = judge(group, 2, usual);
  const Judgement after = judge(group, 2, fit_model(group.cells, 2, usual).applied(usual));
  EXPECT_GT(before.cells.front().ratio(), 1.4);
  EXPECT_EQ(after.cells.front().ratio(), 1);
}

TEST(FitModel, FindsAnotherNetwork) {
  const Hosts hosts{{0, 0, 1, 1}};
  const ModelScale machine = scale_of({{"messages", 0.25}, {"latency", 8}, {"wire", 0.5}});
  const MeasuredGroup group = measured_by(hosts, machine.applied({}));
  const ModelScale found = fit_model(group.cells, hosts, {});
  EXPECT_LT(error_of(group, hosts, found.applied({})), 0.1);
}

TEST(FitModel, WhatWasNotMeasuredStays) {
  const LinkModel usual{.reads_peers = false};
  const MeasuredGroup group = measured_by(4, usual);
  EXPECT_EQ(fit_model(group.cells, 4, usual), ModelScale{}) << "predictions were true already";
  const ModelScale machine = scale_of({{"flags", 4}});
  const ModelScale found = fit_model(measured_by(4, machine.applied(usual)).cells, 4, usual);
  for (const char* untouched : {"wire", "latency", "messages", "reads", "kernel-calls"})
    EXPECT_EQ(found.factors.at(index_of(untouched)), 1) << untouched;
  EXPECT_EQ(fit_model({}, 4, usual), ModelScale{});
}

TEST(ModelScales, ThoseOfAboutAsManyRanksCount) {
  ModelScales scales;
  EXPECT_EQ(scales.at(2), ModelScale{});
  scales.add(2, true, scale_of({{"flags", 2}}));
  scales.add(16, true, scale_of({{"flags", 16}}));
  const auto flags = [&](const Hosts& hosts) {
    return scales.at(hosts).factors[index_of("flags")];
  };
  EXPECT_EQ(flags(1), 2);
  EXPECT_EQ(flags(4), 2);
  EXPECT_EQ(flags(12), 16);
  EXPECT_EQ(flags(Hosts{{0, 0, 1, 1}}), 2) << "nothing was measured on several hosts";
  scales.add(8, false, scale_of({{"flags", 8}}));
  EXPECT_EQ(flags(Hosts{{0, 0, 1, 1}}), 8);
  EXPECT_EQ(flags(8), 16) << "of one host, though 16 ranks are more";
}

Profile with_model() {
  Profile profile = small_profile();
  profile.groups[0].model = scale_of({{"flags", 0.25}, {"wire", 3}});
  return profile;
}

TEST(FittedModel, IsKeptInTheProfile) {
  const std::string text = to_json(with_model());
  const Profile read = parse_profile(text, "machine.json");
  EXPECT_EQ(read.groups[0].model, with_model().groups[0].model);
  EXPECT_EQ(to_json(read), text);
  EXPECT_FALSE(parse_profile(to_json(small_profile()), "machine.json").groups[0].model);
  const auto schema =
      nlohmann::json::parse(std::ifstream{CAPSTAN_SOURCE_DIR "/docs/profile.schema.json"});
  const auto& known = schema["properties"]["groups"]["items"]["properties"]["model"]["properties"];
  EXPECT_EQ(known.size(), model_factor_count);
  for (const ModelFactor& factor : model_factors()) EXPECT_TRUE(known.contains(factor.name));
}

TEST(FittedModel, BadFactorsSayWhere) {
  const auto complaint = [](const std::string& by) {
    std::string text = to_json(with_model());
    const std::string part = "\"wire\": 3.0";
    text.replace(text.find(part), part.size(), by);
    try {
      parse_profile(text, "machine.json");
    } catch (const InvalidArgument& error) {
      return std::string{error.what()};
    }
    return std::string{"none"};
  };
  EXPECT_THAT(complaint("\"wire\": 0"), HasSubstr("/groups/0/model/wire: expected a number from"));
  EXPECT_THAT(complaint("\"wire\": -1"), HasSubstr("/groups/0/model/wire"));
  EXPECT_THAT(complaint("\"wire\": \"x\""), HasSubstr("/groups/0/model/wire"));
  EXPECT_THAT(complaint("\"wires\": 1"), HasSubstr("the model has no such factor"));
}

TEST(FittedModel, AProfileWithoutCellsLeavesTheChoiceToTheModel) {
  Profile profile = with_model();
  profile.groups[0].cells.clear();
  const ProfileContent content = content_of({"machine.json", to_json(profile)}, "tcp");
  EXPECT_EQ(content.host.measured, nullptr);
  EXPECT_EQ(content.host.scales.at(4).factors[index_of("flags")], 0.25);
  EXPECT_EQ(content_of({}, "tcp").host.measured, nullptr);
  profile.groups[0].hosts = 2;
  profile.groups[0].network = "ofi";
  EXPECT_TRUE(content_of({"machine.json", to_json(profile)}, "tcp").host.scales.empty())
      << "of another network";
}

TEST(FittedModel, ChangesTheChoice) {
  const Call call = measured_call({Collective::all_reduce, 2, 1, Bytes{64 << 10}});
  const auto chosen = [&](const ModelScale& scale) {
    MachineView machine{.hosts = 2, .reads_peers = true};
    machine.profile.host.scales.add(2, true, scale);
    return choose(call, 2, {}, SumOrder::any, link_model(machine, {})).protocol;
  };
  EXPECT_TRUE(reads_buffers(chosen({})));
  EXPECT_EQ(chosen(scale_of({{"kernel-calls", 8}, {"loads", 8}})), Protocol::staged);
}

}  // namespace
}  // namespace capstan
