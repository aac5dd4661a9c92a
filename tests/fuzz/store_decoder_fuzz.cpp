// Feeds arbitrary bytes to the store protocol's decoder, cut into arbitrary pieces. It must refuse
// or decode them without a bad access or unbounded memory, and what it decodes must encode to the
// very frame that it came from.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "core/runtime/bootstrap/wire.hpp"

namespace {

using namespace capstan;

/// Encoding is the inverse of decoding.
void check_round_trip(const wire::Message& message) {
  const auto frame = wire::encode(message);
  const auto type = static_cast<std::uint16_t>(message.index() + 1);
  if (wire::decode(type, std::span{frame}.subspan(wire::header_size)) != message) std::abort();
}

void read_all(std::span<const std::byte> input, std::size_t piece, std::size_t limit) {
  wire::FrameReader reader{limit};
  while (!input.empty()) {
    const auto space = reader.space();
    if (space.empty() || space.size() > std::max(limit, wire::header_size)) std::abort();
    const auto count = std::min({space.size(), input.size(), piece});
    std::copy_n(input.begin(), count, space.begin());
    input = input.subspan(count);
    reader.commit(count);
    if (const auto message = reader.take()) check_round_trip(*message);
  }
}

}  // namespace

/// The first byte says how large the pieces are and whether the peer has proved itself; the rest is
/// what it sends.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto input = std::as_bytes(std::span{data + 1, size - 1});
  const std::size_t limit = data[0] & 1 ? wire::max_payload : wire::max_handshake_payload;
  try {
    read_all(input, 1 + data[0] / 2, limit);
  } catch (const wire::Malformed&) {  // what hostile bytes are meant to end in
  }
  return 0;
}
