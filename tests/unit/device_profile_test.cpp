// SPDX-License-Identifier: Apache-2.0

// Profiles of calls whose buffers lie in memory of devices.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "capstan/error.hpp"
#include "core/engine/run/machine_view.hpp"
#include "core/profiles/check_profile.hpp"
#include "core/profiles/export_profile.hpp"
#include "core/profiles/find_profile.hpp"
#include "core/schedule/selection/device_links.hpp"
#include "tests/schema.hpp"
#include "tests/unit/measured_cells.hpp"

namespace capstan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A profile of the host and of devices with links of their own.
Profile profile_of_both() {
  Profile profile = small_profile();
  MeasuredGroup& group = profile.group(4, 1, "", DeviceLink::direct);
  group.date = "2026-11-29T08:00:00Z";
  group.cells = {cell(1024, {way("direct", Protocol::staged, 9)})};
  group.model = ModelScale{};
  group.model->factors[0] = 2;
  return profile;
}

TEST(DeviceProfiles, CountForTheirLinksAlone) {
  const Profile profile = profile_of_both();
  ASSERT_EQ(profile.groups.size(), 2U);
  const ProfileContent content = content_of({"machine.json", to_json(profile)}, "tcp");
  const auto fastest = [&](std::optional<DeviceLink> link) {
    const auto& measured = content.part(link).measured;
    return measured ? measured->at(Collective::all_reduce, 4, 1, Bytes{1024}).ways.front()
                    : MeasuredWay{};
  };
  EXPECT_EQ(fastest({}).nanoseconds, 1000);
  EXPECT_EQ(fastest(DeviceLink::direct).nanoseconds, 9000);
  EXPECT_EQ(fastest(DeviceLink::memory).algorithm, nullptr) << "nothing was measured";
  const MachineView machine{.hosts = 4, .profile = content};
  EXPECT_EQ(link_model(machine, {}, DeviceLink::direct).call,
            2 * device_links(DeviceLink::direct, 4).call);
  EXPECT_EQ(link_model(machine, {}).call, LinkModel{}.call);
}

TEST(DeviceProfiles, AreReadAsTheyWereWrittenAndFollowTheSchema) {
  const std::string text = to_json(profile_of_both());
  EXPECT_EQ(to_json(parse_profile(text, "machine.json")), text);
  const test::Schema schema{CAPSTAN_SOURCE_DIR "/docs/profile.schema.json"};
  auto document = nlohmann::json::parse(text);
  EXPECT_THAT(schema.faults(document), IsEmpty());
  document["groups"][1]["device_link"] = "wire";
  try {
    parse_profile(document.dump(), "machine.json");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("/groups/1/device_link: expected memory, direct or bus"));
  }
}

/// No other library has such links.
TEST(DeviceProfiles, AreNotExported) {
  for (const TuningFormat format : {TuningFormat::nccl, TuningFormat::ucc})
    EXPECT_EQ(export_profile(profile_of_both(), format), export_profile(small_profile(), format));
}

TEST(DeviceProfiles, AreCheckedForWhatDevicesDoNot) {
  Profile profile = profile_of_both();
  const auto findings = [&] { return check_profile(profile, profile.machine); };
  EXPECT_THAT(findings(), IsEmpty());
  profile.groups[1].cells.front().ways.front().protocol = Protocol::read_input;
  EXPECT_THAT(findings(), Contains(HasSubstr("direct/read_input does not run on devices")));
}

}  // namespace
}  // namespace capstan
