// SPDX-License-Identifier: Apache-2.0

// Frames of the TCP transport: which of them are refused, and how they are cut.

#include "tests/conformance/tcp_frames.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "capstan/error.hpp"
#include "transports/tcp/frame.hpp"

namespace capstan::conformance {
namespace {

using tcp::FrameDecoder;
using tcp::FrameHeader;

TEST(TcpFrames, OutsideTheSegmentAreRefused) {
  constexpr std::uint64_t size = 4096, most = ~std::uint64_t{0};
  for (const FrameHeader bad :
       {FrameHeader{size, 1}, FrameHeader{0, size + 1}, FrameHeader{4090, 7}, FrameHeader{most, 1},
        FrameHeader{8, most}, FrameHeader{most, most}, FrameHeader{most - 7, 16}, FrameHeader{0, 0},
        FrameHeader{5, 0}}) {
    FrameDecoder decoder{Bytes{size}};
    const auto bytes = frame(bad.offset, bad.length, 0);
    std::span<const std::byte> input{bytes};
    EXPECT_THROW(decoder.next(input), MalformedMessage) << bad.offset << " " << bad.length;
  }
  FrameDecoder decoder{Bytes{size}};
  const auto all = frame(0, size, size);
  std::span<const std::byte> input{all};
  EXPECT_EQ(std::get<FrameDecoder::Piece>(decoder.next(input)).bytes.size(), size);
}

TEST(TcpFrames, AreNeverCutWithinAWord) {
  const auto bytes = frame(13, 50, 50);
  for (std::size_t available = 0; available < bytes.size(); ++available) {
    FrameDecoder decoder{Bytes{100}};
    std::span<const std::byte> input = std::span{bytes}.first(available);
    const auto event = decoder.next(input);
    if (const auto* piece = std::get_if<FrameDecoder::Piece>(&event)) {
      EXPECT_EQ(piece->offset, 13u);
      EXPECT_EQ((piece->offset + piece->bytes.size()) % 8, 0u);
      EXPECT_LT(input.size(), 8u);
    }
    EXPECT_LT(input.size(), FrameDecoder::most_left);
  }
}

}  // namespace
}  // namespace capstan::conformance
