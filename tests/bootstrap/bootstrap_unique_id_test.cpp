// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "capstan/error.hpp"
#include "core/bootstrap/join.hpp"
#include "core/bootstrap/unique_id.hpp"
#include "core/platform/net/network.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

Deadline patience() {
  return Deadline::in(60s);
}

UniqueId example(const std::string& host = "192.0.2.1") {
  const Secret secret = Secret::from_text("secret");
  return seal({{host, 54321}, secret});
}

TEST(UniqueId, KeepsItsContent) {
  for (const char* host : {"192.0.2.1", "2001:db8::1"}) {
    const auto content = unseal(unique_id_from_string(to_string(example(host))));
    EXPECT_EQ(content.endpoint, (TcpEndpoint{host, 54321}));
    EXPECT_EQ(content.secret.bytes(), Secret::from_text("secret").bytes());
  }
  EXPECT_EQ(unique_id_from_string(to_string(example())), example());
  EXPECT_THROW(example("localhost"), InvalidArgument);
}

TEST(UniqueId, AnyChangedByteIsNoticed) {
  for (std::size_t i = 0; i < sizeof(UniqueId); ++i) {
    UniqueId id = example();
    id.bytes[i] ^= std::byte{1};
    EXPECT_THROW(unseal(id), InvalidArgument) << "byte " << i;
  }
  EXPECT_THROW(unseal(UniqueId{}), InvalidArgument);
}

TEST(UniqueId, AnyChangedCharacterIsNoticed) {
  const std::string text = to_string(example());
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_THROW(unique_id_from_string(changed), InvalidArgument) << "character " << i;
    changed[i] = '!';
    EXPECT_THROW(unique_id_from_string(changed), InvalidArgument) << "character " << i;
    EXPECT_THROW(unique_id_from_string(text.substr(0, i)), InvalidArgument);
  }
  EXPECT_THROW(unique_id_from_string(text + "A"), InvalidArgument);
  EXPECT_THROW(unique_id_from_string(text + "\n"), InvalidArgument);
}

TEST(UniqueId, RanksMeet) {
  const UniqueId id = create_unique_id();
  std::vector<std::string> seen(5);
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < 5; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto store = join(id, rank, 5, patience());
      if (rank == 3) put_text(*store, "key", "from rank 3");
      seen[static_cast<std::size_t>(rank)] = get_text(*store, "key", patience());
      barrier(*store, "end", rank, 5, patience());
    });
  }
  ranks.clear();
  for (const auto& text : seen) EXPECT_EQ(text, "from rank 3");
}

TEST(UniqueId, ServesOneCommunicator) {
  const UniqueId id = create_unique_id();
  {
    const auto store = join(id, 0, 1, patience());
  }
  EXPECT_THROW(join(id, 0, 1, Deadline::in(50ms)), BootstrapError);
}

TEST(UniqueId, ADiscardedOneServesNobody) {
  const UniqueId id = create_unique_id(), other = create_unique_id();
  discard(id);
  discard(id);
  EXPECT_THROW(join(id, 0, 1, Deadline::in(50ms)), BootstrapError);
  const auto store = join(other, 0, 1, patience());
  discard(other);  // it is in use
  put_text(*store, "key", "still here");
}

TEST(UniqueId, TwoAtOnceAreApart) {
  const UniqueId a = create_unique_id(), b = create_unique_id("localhost");
  const auto in_a = join(a, 0, 2, patience()), in_b = join(b, 0, 2, patience());
  put_text(*in_a, "key", "a");
  EXPECT_EQ(in_b->try_get("key"), std::nullopt);
}

TEST(UniqueId, WithoutAnAddressNamesTheOneThatOtherHostsReach) {
  const UniqueId id = create_unique_id("");
  EXPECT_EQ(unseal(id).endpoint.host, choose_address("").address.text());
  const auto store = join(id, 0, 1, patience());
}

TEST(UniqueId, WithAnotherSecretNobodyJoins) {
  auto content = unseal(create_unique_id());
  content.secret = Secret::random();
  try {
    join(seal(content), 0, 2, patience());
    ADD_FAILURE() << "joined";
  } catch (const BootstrapError& error) {
    EXPECT_THAT(error.what(), HasSubstr("wrong secret"));
  }
}

/// The process that hosts the meeting point gives up: the others hear of it at once.
TEST(UniqueId, GivingUpEarlyEndsTheWaitOfOthers) {
  const UniqueId id = create_unique_id();
  auto leaver = join(id, 0, 3, patience());
  std::string text;
  std::jthread waiter{[&] {
    try {
      const auto store = join(id, 1, 3, patience());
      put_text(*store, "here", "");
      store->get("never", patience());
    } catch (const BootstrapError& error) {
      text = error.what();
    }
  }};
  leaver->get("here", patience());
  leaver.reset();
  waiter.join();
  EXPECT_THAT(text, HasSubstr("rank 1"));
}

TEST(UniqueId, RefusesWhatCannotBeListenedOn) {
  EXPECT_THROW((void)create_unique_id("0.0.0.0"), InvalidArgument);
  EXPECT_THROW((void)create_unique_id("::"), InvalidArgument);
  EXPECT_THROW((void)create_unique_id("192.0.2.77"), SystemError);
  EXPECT_THROW((void)create_unique_id("host.invalid"), SystemError);
  EXPECT_THROW(join(example(), 2, 2, patience()), InvalidArgument);
  EXPECT_THROW(join(example(), 0, 0, patience()), InvalidArgument);
}

}  // namespace
}  // namespace capstan
