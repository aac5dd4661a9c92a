// SPDX-License-Identifier: Apache-2.0

// Feeds arbitrary bytes to the decoders of the TCP transport, cut into arbitrary pieces. They must
// refuse or decode them without a bad access; frames must stay inside the segment, in whole words,
// and come out the same however they were cut.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "tests/fuzz/fuzz.hpp"
#include "transports/tcp/frame.hpp"
#include "transports/tcp/handshake.hpp"

namespace {

using namespace capstan;
using fuzz::require;

constexpr std::uint64_t segment_size = 4096;
using Input = std::span<const std::byte>;

/// The contents of a peer's mirror after `input`, and how the input ended.
struct Result {
  std::vector<std::byte> mirror = std::vector<std::byte>(segment_size);
  bool malformed = false;
  bool goodbye = false;
  bool operator==(const Result&) const = default;
};

/// True after a goodbye.
bool deliver(tcp::FrameDecoder& decoder, Input& input, Result& result) {
  while (true) {
    const auto event = decoder.next(input);
    if (std::holds_alternative<tcp::FrameDecoder::NeedsMore>(event)) return false;
    if (std::holds_alternative<tcp::FrameDecoder::Goodbye>(event)) return true;
    const auto& piece = std::get<tcp::FrameDecoder::Piece>(event);
    const std::uint64_t end = piece.offset + piece.bytes.size();
    require(!piece.bytes.empty() && end <= segment_size);
    require(end % tcp::FrameDecoder::word == 0 || decoder.outstanding().length == 0);
    std::ranges::copy(piece.bytes,
                      result.mirror.begin() + static_cast<std::ptrdiff_t>(piece.offset));
  }
}

/// As the transport does: what is not delivered is offered again in front of the next piece.
Result read_frames(Input input, std::size_t piece) {
  Result result;
  tcp::FrameDecoder decoder{Bytes{segment_size}};
  std::vector<std::byte> buffer;
  try {
    while (!input.empty() && !result.goodbye) {
      const auto count = std::min(piece, input.size());
      buffer.insert(buffer.end(), input.begin(),
                    input.begin() + static_cast<std::ptrdiff_t>(count));
      input = input.subspan(count);
      Input rest{buffer};
      result.goodbye = deliver(decoder, rest, result);
      require(result.goodbye || rest.size() < tcp::FrameDecoder::most_left);
      buffer.erase(buffer.begin(), buffer.end() - static_cast<std::ptrdiff_t>(rest.size()));
    }
  } catch (const MalformedMessage&) {
    result.malformed = true;
  }
  return result;
}

/// Small offsets and lengths, so that the search need not guess them first.
std::vector<std::byte> framed(Input input) {
  std::vector<std::byte> bytes;
  while (input.size() >= 3) {
    const tcp::FrameHeader header{std::to_integer<std::uint64_t>(input[0]) * 17,
                                  std::to_integer<std::uint64_t>(input[1])};
    const auto* start = reinterpret_cast<const std::byte*>(&header);
    bytes.insert(bytes.end(), start, start + sizeof(header));
    input = input.subspan(2);
    const auto payload = input.first(std::min<std::size_t>(header.length, input.size()));
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    input = input.subspan(payload.size());
  }
  return bytes;
}

/// The message in these bytes, which are whole.
tcp::HandshakeMessage reread(Input bytes) {
  tcp::HandshakeReader reader{handshake::max_answer};
  while (true) {
    const auto space = reader.space();
    require(space.size() <= bytes.size());
    std::ranges::copy(bytes.first(space.size()), space.begin());
    bytes = bytes.subspan(space.size());
    reader.commit(space.size());
    if (const auto message = reader.take()) return *message;
  }
}

void read_messages(Input input, std::size_t piece, std::size_t limit) {
  tcp::HandshakeReader reader{limit};
  try {
    while (!input.empty()) {
      const auto space = reader.space();
      require(!space.empty() && space.size() <= std::max(limit, tcp::HandshakeReader::header_size));
      const auto count = std::min({space.size(), input.size(), piece});
      const Input given = input.first(count);
      std::ranges::copy(given, space.begin());
      input = input.subspan(count);
      reader.commit(count);
      const auto message = reader.take();
      if (!message) continue;
      require(reread(tcp::encode(*message)) == *message);
    }
  } catch (const MalformedMessage&) {  // what hostile bytes are meant to end in
  }
}

/// `payload` behind a header that fits it.
std::vector<std::byte> with_header(std::uint8_t type, Input payload) {
  return capstan::framed(tcp::protocol, type, payload);
}

/// Read whole, from an acceptor.
std::string whole(const tcp::HandshakeMessage& message) {
  return '\xff' + std::string{fuzz::text_of(tcp::encode(message))};
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  const tcp::FrameHeader frame{64, 16};
  return {whole(tcp::Hello{}),
          whole(tcp::Challenge{}),
          whole(tcp::Claim{{}, {4096, 1, 0, 2}}),
          whole(tcp::Welcome{}),
          whole(tcp::refusal(tcp::RefusalReason::wrong_segment, 4096)),
          whole(tcp::Choice{}),
          '\xfc' + std::string{reinterpret_cast<const char*>(&frame), sizeof frame} +
              std::string(16, 'x'),
          '\xfd' + std::string("\x04\x10") + std::string(16, 'x')};
}

/// The first byte says how large the pieces are, and what follows: the bytes of a connection before
/// or after the handshake, as they are or with sensible headers put in.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::uint8_t how = data[0];
  const std::size_t piece = 1 + how / 4;
  const Input rest = std::as_bytes(std::span{data + 1, size - 1});
  const std::vector<std::byte> made =
      how & 1 ? framed(rest) : with_header(data[1], rest.subspan(1));
  if (how & 2) {
    const std::size_t limit = how & 4 ? handshake::max_answer : handshake::max_payload;
    read_messages(how & 1 ? rest : Input{made}, piece, limit);
  } else {
    const Input input = how & 1 ? Input{made} : rest;
    require(read_frames(input, piece) == read_frames(input, input.size() + 1));
  }
  return 0;
}
