// SPDX-License-Identifier: Apache-2.0
#include "transports/ofi/reader.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <utility>

namespace capstan::ofi {
namespace {

// Not measured. Together they keep a fast network busy for longer than an answer takes: 8 MiB are
// 0.17 ms at 400 Gbit/s. Each piece that has come shows the sender that its message is being read.
constexpr std::uint64_t longest_piece = std::uint64_t{1} << 20;
constexpr std::size_t most_in_flight = 8;

}  // namespace

Reader::Reader(OfiEndpoint& endpoint, Rank peer, fi_addr_t address, std::uint64_t longest)
    : endpoint_(endpoint),
      peer_(peer),
      address_(address),
      longest_(std::min(longest, longest_piece)) {}

std::shared_ptr<RemoteRead> Reader::start(RemoteMemory from, std::byte* to, Bytes size, Keys keys) {
  auto read = std::make_shared<RemoteRead>(peer_, size);
  if (size > Bytes{0})
    waiting_.push_back(
        std::make_shared<Reading>(Reading{read, from, to, size.value(), std::move(keys)}));
  return read;
}

long Reader::advance() {
  while (!waiting_.empty() && in_flight_.size() < most_in_flight) {
    const long result = post_piece();
    if (result != 0) return result == -FI_EAGAIN ? 0 : result;
  }
  return 0;
}

long Reader::post_piece() {
  Reading& reading = *waiting_.front();
  const std::uint64_t length = std::min(reading.length, longest_);
  auto piece = std::make_unique<Piece>(peer_, waiting_.front(), length);
  const long result =
      endpoint_.read(address_, reading.to, length, OfiEndpoint::descriptor_of(reading.keys.get()),
                     reading.from, *piece);
  if (result != 0) return result;
  in_flight_.push_back(std::move(piece));
  ++reading.in_flight;
  reading.from.address += length;
  reading.to += length;
  reading.length -= length;
  if (reading.length == 0) waiting_.pop_front();
  return 0;
}

void Reader::completed(Operation& operation, bool well) {
  const auto found = std::ranges::find_if(
      in_flight_, [&](const auto& piece) { return piece.get() == &operation; });
  const std::unique_ptr<Piece> piece = std::move(*found);
  in_flight_.erase(found);
  Reading& reading = *piece->reading;
  --reading.in_flight;
  if (well) {
    reading.read->left -= piece->length;
  } else {
    reading.broken = true;
    std::erase(waiting_, piece->reading);
  }
  settle(reading);
}

/// Lets a broken read fail as soon as nothing is written to its memory any more.
void Reader::settle(Reading& reading) {
  if (reading.broken && reading.in_flight == 0) reading.read->failed = true;
}

void Reader::abandon() {
  for (const auto& reading : std::exchange(waiting_, {})) {
    reading->broken = true;
    settle(*reading);
  }
}

void Reader::stop() {
  abandon();
  for (const auto& piece : std::exchange(in_flight_, {})) piece->reading->read->failed = true;
}

}  // namespace capstan::ofi
