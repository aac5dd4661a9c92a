// SPDX-License-Identifier: Apache-2.0
#include "transports/tcp/frame.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace capstan::tcp {

FrameDecoder::Event FrameDecoder::next(std::span<const std::byte>& input) {
  if (current_.length == 0) {
    if (input.size() < sizeof(FrameHeader)) return NeedsMore{};
    if (start_frame(input)) return Goodbye{};
  }
  const auto count = static_cast<std::size_t>(whole_words(input.size()));
  if (count == 0) return NeedsMore{};
  const Piece piece{current_.offset, input.first(count)};
  input = input.subspan(count);
  skip(count);
  return piece;
}

/// True if the frame is the last one.
bool FrameDecoder::start_frame(std::span<const std::byte>& input) {
  FrameHeader header;
  std::memcpy(&header, input.data(), sizeof(header));
  input = input.subspan(sizeof(header));
  if (header == goodbye) return true;
  // In this order, nothing overflows.
  if (header.length == 0 || header.length > segment_ || header.offset > segment_ - header.length) {
    bad_content(fmt::format("a frame of {} bytes for offset {} of a segment of {}", header.length,
                            header.offset, segment_));
  }
  current_ = header;
  return false;
}

std::uint64_t FrameDecoder::whole_words(std::uint64_t available) const {
  if (available >= current_.length) return current_.length;
  const std::uint64_t cut = (current_.offset + available) % word;
  return available > cut ? available - cut : 0;
}

void FrameDecoder::skip(std::uint64_t count) {
  current_.offset += count;
  current_.length -= std::min(count, current_.length);
}

}  // namespace capstan::tcp
