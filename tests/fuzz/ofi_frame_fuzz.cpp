// SPDX-License-Identifier: Apache-2.0

// Feeds arbitrary bytes to the reader of the frames that libfabric delivers. What it hands out must
// lie within the frame and within the segment.

#include "tests/fuzz/fuzz.hpp"
#include "transports/ofi/frame.hpp"

namespace {

using namespace capstan;
using fuzz::require;

constexpr std::uint64_t segment = 4096;

}  // namespace

std::vector<std::string> fuzz::seeds() {
  std::vector<std::byte> memory(ofi::frame_size);
  ofi::Frame frame{memory.data(), nullptr};
  frame.set_header({});
  const std::vector<std::byte> bytes(20, std::byte{9});
  frame.append({.offset = 8, .length = bytes.size()}, bytes.data());
  frame.announce({.offset = 1024, .length = 2048});
  return {std::string{fuzz::text_of(std::span{memory}.first(frame.size))}};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < sizeof(ofi::FrameHeader)) return 0;  // is dropped before it is read
  const auto frame = std::as_bytes(std::span{data, size});
  ofi::RecordReader reader{frame};
  std::uint64_t sum = 0;
  while (const auto item = reader.next(segment)) {
    require(item->offset <= segment && item->length <= segment - item->offset);
    if (!item->bytes) continue;
    require(item->bytes >= frame.data() && item->bytes + item->length <= frame.data() + size);
    for (std::uint64_t i = 0; i < item->length; ++i) sum += std::to_integer<int>(item->bytes[i]);
  }
  require(sum <= 255 * size * segment);
  return 0;
}
