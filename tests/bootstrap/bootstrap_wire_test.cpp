// SPDX-License-Identifier: Apache-2.0

// Messages between a store and its clients: what is read in pieces, and what is refused.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "core/bootstrap/store/wire.hpp"

namespace capstan {
namespace {

using Bytes = std::vector<std::byte>;

std::vector<wire::StoreMessage> one_of_each() {
  Nonce nonce;
  nonce.fill(std::byte{9});
  return {wire::Hello{nonce},
          wire::Challenge{nonce},
          wire::Join{nonce, {-1, 7, "scope"}},
          wire::Welcome{nonce},
          wire::Refusal{wire::FailureReason::full, "text"},
          wire::Put{"key", Bytes(100, std::byte{1})},
          wire::Get{"key", 12345},
          wire::TryGet{"key"},
          wire::Done{},
          wire::Absent{},
          wire::Value{Bytes(wire::max_value)},
          wire::Failure{wire::FailureReason::timed_out, ""}};
}

TEST(Wire, EveryMessageSurvivesTheTripInPieces) {
  wire::Conversation reader{wire::max_payload};
  for (const auto& message : one_of_each()) {
    const auto bytes = wire::encode(message);
    std::optional<wire::StoreMessage> arrived;
    for (std::size_t at = 0; at < bytes.size() && !arrived;) {
      const auto space = reader.space();
      const auto count = std::min({space.size(), bytes.size() - at, at % 7 + 1 + at / 100});
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), count, space.begin());
      reader.commit(count);
      at += count;
      arrived = reader.take();
      EXPECT_EQ(arrived.has_value(), at == bytes.size());
    }
    EXPECT_EQ(arrived, message);
  }
}

TEST(Wire, TruncatedAndExtendedPayloadsAreRefused) {
  for (const auto& message : one_of_each()) {
    const auto bytes = wire::encode(message);
    const Bytes payload(bytes.begin() + PayloadReader::header_size, bytes.end());
    const auto type = static_cast<std::uint16_t>(message.index() + 1);
    const bool open_ended =
        std::holds_alternative<wire::Put>(message) || std::holds_alternative<wire::Value>(message);
    const std::size_t least = open_ended ? 5 : payload.size();  // a Put's key, then any value
    for (std::size_t n = 0; n < least && n < payload.size(); ++n) {
      if (std::holds_alternative<wire::Value>(message)) break;  // any length is a value
      EXPECT_THROW(wire::decode(type, std::span{payload}.first(n)), MalformedMessage);
    }
    Bytes longer = payload;
    longer.resize(payload.size() + (open_ended ? wire::max_value + 1 : 1));
    EXPECT_THROW(wire::decode(type, longer), MalformedMessage);
  }
  EXPECT_THROW(wire::decode(0, {}), MalformedMessage);
  EXPECT_THROW(wire::decode(13, {}), MalformedMessage);
  EXPECT_THROW(wire::decode(8, Bytes(2)), MalformedMessage) << "an empty key";
}

}  // namespace
}  // namespace capstan
