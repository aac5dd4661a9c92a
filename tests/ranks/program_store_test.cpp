// SPDX-License-Identifier: Apache-2.0

// Worlds whose ranks meet in a store of the program.

#include "core/bootstrap/store/program_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>

#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// A program's store: a map for all ranks, here threads. It throws exceptions of its own.
class MapStore : public Store {
 public:
  void put(std::string_view key, std::span<const std::byte> value) override {
    const std::lock_guard lock{mutex_};
    values_[std::string{key}].assign(value.begin(), value.end());
    changed_.notify_all();
  }
  std::vector<std::byte> get(std::string_view key, Deadline deadline) override {
    std::unique_lock lock{mutex_};
    const std::string name{key};
    if (!changed_.wait_until(lock, deadline.when(), [&] { return values_.contains(name); }))
      throw std::runtime_error("the map has no such key");
    return values_[name];
  }
  std::optional<std::vector<std::byte>> try_get(std::string_view key) override {
    const std::lock_guard lock{mutex_};
    const auto found = values_.find(std::string{key});
    if (found == values_.end()) return std::nullopt;
    return found->second;
  }

  std::map<std::string, std::vector<std::byte>> values() {
    const std::lock_guard lock{mutex_};
    return values_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::vector<std::byte>> values_;
};

constexpr const char* secret = "a secret of the test's own";

Settings short_settings(const std::string& own_secret = "") {
  Settings settings = bounded_settings();
  settings.join_timeout = std::chrono::milliseconds{500};
  settings.secret = own_secret;
  return settings;
}

/// Each rank joins on a thread and calls body(world).
template <class Body>
void on_ranks_that_join(const std::shared_ptr<Store>& store, int ranks, const Settings& settings,
                        const std::string& prefix, Body body) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        Communicator world = Communicator::join(store, rank, ranks, settings, prefix);
        body(world);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    });
}

void expect_sums(Communicator& world) {
  std::vector<int> data(1000, world.rank() + 1);
  world.all_reduce(data);
  EXPECT_EQ(data.front(), world.size() * (world.size() + 1) / 2);
  world.barrier();
}

/// The error of a rank that joins alone.
std::pair<ErrorCode, std::string> error_of_joining(const std::shared_ptr<Store>& store, int rank,
                                                   int size, const Settings& settings,
                                                   const std::string& prefix = "capstan") {
  try {
    (void)Communicator::join(store, rank, size, settings, prefix);
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ErrorCode::internal, "it has joined"};
}

TEST(ProgramStore, RanksMeetInItMoreThanOnce) {
  const auto store = std::make_shared<MapStore>();
  for (const int ranks : {1, 2, 3})
    on_ranks_that_join(store, ranks, bounded_settings(), "world of " + std::to_string(ranks),
                       expect_sums);
}

TEST(ProgramStore, ASecretEncryptsWhatRanksPut) {
  const auto store = std::make_shared<MapStore>();
  Settings settings = bounded_settings();
  const auto content = [&] {
    std::string all;
    for (const auto& [key, value] : store->values())
      all.append(reinterpret_cast<const char*>(value.data()), value.size());
    return all;
  };
  on_ranks_that_join(store, 2, settings, "plain", expect_sums);
  EXPECT_THAT(content(), HasSubstr("for 1 rails")) << "of the exchange about layouts";
  const auto open = std::make_shared<MapStore>();
  settings.secret = secret;
  on_ranks_that_join(open, 2, settings, "encrypted", expect_sums);
  std::string all;
  for (const auto& [key, value] : open->values())
    all.append(reinterpret_cast<const char*>(value.data()), value.size());
  EXPECT_GT(all.size(), 1000u);
  EXPECT_THAT(all, Not(HasSubstr("for 1 rails")));
}

TEST(ProgramStore, RanksWithOtherSecretsOrNoneAreRefused) {
  for (const auto& [first, second] :
       {std::pair{secret, "another secret of 16"}, std::pair{secret, ""}, std::pair{"", secret}}) {
    const auto store = std::make_shared<MapStore>();
    std::jthread other{[&] { (void)error_of_joining(store, 1, 2, short_settings(second)); }};
    const auto [code, text] = error_of_joining(store, 0, 2, short_settings(first));
    EXPECT_EQ(code, ErrorCode::wrong_secret) << text;
    EXPECT_THAT(text, HasSubstr("CAPSTAN_SECRET"));
    EXPECT_THAT(text, HasSubstr("rank 0"));
  }
}

/// Whoever can write to the store, but does not know the secret, can neither change a value nor put
/// one in the place of another.
TEST(ProgramStore, ForgedValuesAreRefused) {
  const auto forge = [](auto change) {
    const auto store = std::make_shared<MapStore>();
    (void)error_of_joining(store, 1, 2, short_settings(secret));  // rank 0 does not come
    auto values = store->values();
    change(values);
    for (const auto& [key, value] : values) store->put(key, value);
    return error_of_joining(store, 0, 2, short_settings(secret)).first;
  };
  const auto arrived = [](auto& values) -> auto& {
    return values.at("capstan/barrier/joined/arrived/1");
  };
  EXPECT_EQ(forge([](auto&) {}), ErrorCode::join_timed_out) << "rank 1 has gone";
  EXPECT_EQ(forge([&](auto& values) { arrived(values).back() ^= std::byte{1}; }),
            ErrorCode::wrong_secret);
  EXPECT_EQ(forge([&](auto& values) { arrived(values) = values.at("capstan/taken/1"); }),
            ErrorCode::wrong_secret);
  EXPECT_EQ(forge([&](auto& values) { arrived(values).resize(10); }), ErrorCode::wrong_secret);
  EXPECT_EQ(forge([&](auto& values) { arrived(values).clear(); }), ErrorCode::bootstrap_failed);
}

TEST(ProgramStore, ARankThatNeverComesIsNamed) {
  const auto [code, text] = error_of_joining(std::make_shared<MapStore>(), 0, 2, short_settings());
  EXPECT_EQ(code, ErrorCode::join_timed_out);
  EXPECT_THAT(text, HasSubstr("rank 1 never joined"));
}

TEST(ProgramStore, APrefixServesOneCommunicator) {
  const auto store = std::make_shared<MapStore>();
  on_ranks_that_join(store, 2, bounded_settings(), "a", expect_sums);
  const auto [code, text] = error_of_joining(store, 1, 2, short_settings(), "a");
  EXPECT_EQ(code, ErrorCode::invalid_argument);
  EXPECT_THAT(text, HasSubstr("prefix"));
  on_ranks_that_join(store, 2, bounded_settings(), "b", expect_sums);
}

TEST(ProgramStore, WhatItThrowsIsNamed) {
  class BrokenStore final : public MapStore {
   public:
    void put(std::string_view, std::span<const std::byte>) override {
      throw std::runtime_error("the disk is full");
    }
  };
  const auto [code, text] =
      error_of_joining(std::make_shared<BrokenStore>(), 1, 2, short_settings());
  EXPECT_EQ(code, ErrorCode::bootstrap_failed);
  EXPECT_THAT(text, HasSubstr("the disk is full"));
  EXPECT_THAT(text, HasSubstr("rank 1"));
}

TEST(ProgramStore, HostileArgumentsAreRefused) {
  const auto store = std::make_shared<MapStore>();
  const auto code = [](const auto& error) { return error.first; };
  const auto settings = short_settings();
  EXPECT_EQ(code(error_of_joining(nullptr, 0, 2, settings)), ErrorCode::invalid_argument);
  EXPECT_EQ(code(error_of_joining(store, 2, 2, settings)), ErrorCode::invalid_argument);
  EXPECT_EQ(code(error_of_joining(store, -1, 2, settings)), ErrorCode::invalid_argument);
  EXPECT_EQ(code(error_of_joining(store, 0, 0, settings)), ErrorCode::invalid_argument);
  EXPECT_EQ(code(error_of_joining(store, 0, 2, settings, "")), ErrorCode::invalid_argument);
  EXPECT_EQ(code(error_of_joining(store, 0, 2, settings, std::string(200, 'p'))),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code(error_of_joining(store, 0, 2, short_settings("short"))),
            ErrorCode::invalid_argument);
  EXPECT_TRUE(store->values().empty());
}

TEST(ProgramStore, KeysOutsideTheRulesReachNoStore) {
  const auto store = std::make_shared<MapStore>();
  ProgramStore ours{store, {.prefix = "keys", .rank = 0}};
  const std::size_t before = store->values().size();
  for (const std::string& key : {std::string{}, std::string(10'000, 'k')}) {
    EXPECT_THROW(ours.put(key, {}), InvalidArgument) << key.size();
    EXPECT_THROW((void)ours.try_get(key), InvalidArgument) << key.size();
    EXPECT_THROW((void)ours.get(key, Deadline::in(std::chrono::milliseconds{1})), InvalidArgument)
        << key.size();
  }
  EXPECT_EQ(store->values().size(), before);
}

}  // namespace
}  // namespace capstan
