// SPDX-License-Identifier: Apache-2.0

// Profiles in the forms of other libraries, compared literally.

#include "core/profiles/export_profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace capstan {
namespace {

MeasuredCell cell(Collective collective, std::uint64_t bytes,
                  std::initializer_list<std::pair<const char*, Protocol>> ways) {
  MeasuredCell made{.collective = collective, .ranks = 4, .bytes = Bytes{bytes}, .confidence = 1};
  for (const auto& [name, protocol] : ways)
    made.ways.push_back({&algorithm_named(collective, name), protocol, 1, 1000, 0.1});
  return made;
}

/// Two sizes with one algorithm, two of which only the second way exists elsewhere, and one that
/// exists nowhere.
Profile profile() {
  using enum Collective;
  Profile made{.version = "1.0.0", .machine = {"0123456789abcdef", "a machine"}};
  MeasuredGroup& group = made.group(4, 1, "");
  group.put(cell(all_reduce, 1024, {{"recursive_doubling", Protocol::inline_packets}}));
  group.put(cell(all_reduce, 4096, {{"recursive_doubling", Protocol::staged}}));
  group.put(cell(all_reduce, 16384, {{"direct", Protocol::staged}, {"ring", Protocol::staged}}));
  group.put(cell(all_reduce, 65536, {{"direct", Protocol::read_input}}));
  group.put(cell(broadcast, 1024, {{"chain", Protocol::inline_packets}}));
  return made;
}

TEST(ExportProfile, Nccl) {
  EXPECT_EQ(export_profile(profile(), TuningFormat::nccl),
            "# collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,"
            "regBuff\n"
            "allreduce,8192,32767,ring,simple,-1,1,4,-1,-1\n"
            "broadcast,0,1099511627776,ring,ll,-1,1,4,-1,-1\n");
}

TEST(ExportProfile, OpenMpi4) {
  EXPECT_EQ(export_profile(profile(), TuningFormat::open_mpi_4),
            "2 # collectives\n"
            "2 # allreduce\n"
            "2 # numbers of ranks\n"
            "4 # ranks\n"
            "3 # message sizes\n"
            "0 3 0 0 # from bytes, algorithm recursive_doubling, fan, segment\n"
            "8192 4 0 0 # from bytes, algorithm ring, fan, segment\n"
            "32768 0 0 0 # from bytes, algorithm of its own, fan, segment\n"
            "5 # ranks\n"
            "1 # message sizes\n"
            "0 0 0 0 # other numbers of ranks: its own choice\n"
            "7 # bcast\n"
            "2 # numbers of ranks\n"
            "4 # ranks\n"
            "1 # message sizes\n"
            "0 3 0 0 # from bytes, algorithm chain, fan, segment\n"
            "5 # ranks\n"
            "1 # message sizes\n"
            "0 0 0 0 # other numbers of ranks: its own choice\n");
}

TEST(ExportProfile, OpenMpi6) {
  const auto read = nlohmann::json::parse(export_profile(profile(), TuningFormat::open_mpi_6));
  EXPECT_EQ(read, nlohmann::json::parse(R"({
    "rule_file_version": 3, "module": "tuned", "collectives": {
      "allreduce": [{"comm_size_min": 4, "comm_size_max": 4,
        "comm_rank_distribution": "single-node", "rules": [
          {"msg_size_min": 0, "msg_size_max": 8191, "alg": 3},
          {"msg_size_min": 8192, "msg_size_max": 32767, "alg": 4}]}],
      "bcast": [{"comm_size_min": 4, "comm_size_max": 4,
        "comm_rank_distribution": "single-node", "rules": [
          {"msg_size_min": 0, "msg_size_max": "inf", "alg": 3}]}]}})"));
}

TEST(ExportProfile, Ucc) {
  EXPECT_EQ(export_profile(profile(), TuningFormat::ucc),
            "allreduce:0-8192:host:[4-4]:inf:@knomial#allreduce:8192-32768:host:[4-4]:inf:@ring\n");
}

TEST(ExportProfile, Names) {
  EXPECT_EQ(tuning_format_named("nccl"), TuningFormat::nccl);
  EXPECT_EQ(tuning_format_named("ucc"), TuningFormat::ucc);
  EXPECT_EQ(tuning_format_named("openmpi5"), std::nullopt);
}

}  // namespace
}  // namespace capstan
