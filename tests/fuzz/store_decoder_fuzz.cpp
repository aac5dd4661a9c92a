// SPDX-License-Identifier: Apache-2.0

// Feeds arbitrary bytes to the store protocol's decoder, cut into arbitrary pieces. It must refuse
// or decode them without a bad access or unbounded memory, and what it decodes must encode to the
// very frame that it came from.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "core/bootstrap/store/wire.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace capstan;

constexpr std::size_t type_offset = 6, length_offset = 8;  // in a frame's header

/// Encoding is the inverse of decoding.
void check_round_trip(const wire::StoreMessage& message) {
  const auto frame = wire::encode(message);
  const auto type = static_cast<std::uint16_t>(message.index() + 1);
  if (wire::decode(type, std::span{frame}.subspan(PayloadReader::header_size)) != message)
    std::abort();
}

void read_all(std::span<const std::byte> input, std::size_t piece, std::size_t limit) {
  wire::Conversation reader{limit};
  while (!input.empty()) {
    const auto space = reader.space();
    if (space.empty() || space.size() > std::max(limit, PayloadReader::header_size)) std::abort();
    const auto count = std::min({space.size(), input.size(), piece});
    std::copy_n(input.begin(), count, space.begin());
    input = input.subspan(count);
    reader.commit(count);
    if (const auto message = reader.take()) check_round_trip(*message);
  }
}

/// `payload` behind a header that fits it, so that the search need not guess that first.
std::vector<std::byte> framed(std::uint8_t type, std::span<const std::byte> payload) {
  auto frame = wire::encode(wire::Done{});
  frame[type_offset] = static_cast<std::byte>(type);
  for (std::size_t i = 0; i < 4; ++i) {
    frame[length_offset + i] = static_cast<std::byte>(payload.size() >> (8 * i));
  }
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

/// Read whole, after the proof.
std::string whole(const wire::StoreMessage& message) {
  return '\xfd' + std::string{fuzz::text_of(wire::encode(message))};
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  return {whole(wire::Hello{}),
          whole(wire::Join{{}, {3, 8, "scope"}}),
          whole(wire::Refusal{wire::FailureReason::full, "text"}),
          whole(wire::Put{"key", std::vector<std::byte>(9)}),
          whole(wire::Get{"key", 100}),
          whole(wire::TryGet{"key"}),
          whole(wire::Value{std::vector<std::byte>(9)}),
          whole(wire::Failure{wire::FailureReason::timed_out, "text"})};
}

/// The first byte says how large the pieces are, whether the peer has proved itself, and whether
/// what follows is all that it sends, or the type and payload of one frame.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::uint8_t how = data[0];
  const std::size_t limit = how & 1 ? wire::max_payload : wire::max_handshake_payload;
  const std::size_t piece = 1 + how / 4;
  const auto rest = std::as_bytes(std::span{data + 1, size - 1});
  try {
    if (how & 2) {
      read_all(framed(data[1], rest.subspan(1)), piece, limit);
    } else {
      read_all(rest, piece, limit);
    }
  } catch (const MalformedMessage&) {  // what hostile bytes are meant to end in
  }
  return 0;
}
