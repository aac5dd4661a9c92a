// SPDX-License-Identifier: Apache-2.0

// Where keys lie.

#include "core/platform/net/key_memory.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/platform/net/job_key.hpp"

namespace capstan {
namespace {

KeyMemory::Bytes key_of(int value) {
  KeyMemory::Bytes bytes{};
  bytes.fill(static_cast<std::byte>(value));
  return bytes;
}

/// The flags of the mapping that holds an address: "rd wr mr mw me dd ac".
std::string flags_at(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream smaps{"/proc/self/smaps"};
  bool here = false;
  for (std::string line; std::getline(smaps, line);) {
    std::uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)
      here = begin <= wanted && wanted < end;
    if (here && line.starts_with("VmFlags:")) return line.substr(8) + " ";
  }
  return "";
}

void is_left_out_of_core_dumps(const Secret& secret) {
  EXPECT_NE(flags_at(secret.bytes().data()).find(" dd "), std::string::npos)
      << flags_at(secret.bytes().data());
}

TEST(KeyMemory, IsLeftOutOfCoreDumps) {
  const int anywhere = 0;
  if (flags_at(&anywhere).empty()) GTEST_SKIP() << "needs /proc/self/smaps with VmFlags";
  is_left_out_of_core_dumps(Secret::random());
  const Secret secret = Secret::from_text("a secret of the job");
  const Secret copy = secret;
  Secret assigned = Secret::random();
  assigned = secret;
  for (const auto& each : {std::cref(secret), std::cref(copy), std::cref(std::as_const(assigned))})
    is_left_out_of_core_dumps(each);
  is_left_out_of_core_dumps(secret.child("a purpose", {}));
  is_left_out_of_core_dumps(Secret::from_bytes(key_of(1)));
  is_left_out_of_core_dumps(JobKey::random().between("a purpose", {}, {}));
}

TEST(KeyMemory, IsWipedInTheEnd) {
  const KeyMemory::Bytes* place = nullptr;
  {
    const KeyMemory key{key_of(7)};
    place = &key.bytes();
    EXPECT_EQ(*place, key_of(7));
  }
  EXPECT_EQ(*place, key_of(0));  // its page stays
}

TEST(KeyMemory, EachHasAPlaceOfItsOwn) {
  std::vector<KeyMemory> keys;
  for (int i = 0; i < 1000; ++i) keys.emplace_back(key_of(i));
  std::set<const void*> places;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(keys[static_cast<std::size_t>(i)].bytes(), key_of(i));
    places.insert(&keys[static_cast<std::size_t>(i)].bytes());
  }
  EXPECT_EQ(places.size(), 1000U);
}

TEST(KeyMemory, ServesThreadsAtOnce) {
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([thread] {
      for (int round = 0; round < 200; ++round) {
        std::vector<KeyMemory> keys(50, KeyMemory{key_of(thread + 1)});
        for (const KeyMemory& key : keys) EXPECT_EQ(key.bytes(), key_of(thread + 1));
      }
    });
}

}  // namespace
}  // namespace capstan
