// SPDX-License-Identifier: Apache-2.0
#include "core/communicator/staged_call.hpp"

#include <algorithm>
#include <atomic>

#include "capstan/error.hpp"
#include "core/communicator/checked_call.hpp"
#include "core/communicator/stream_buffers.hpp"
#include "core/platform/device/at_place.hpp"

namespace capstan {
namespace {

constexpr int arrived_word = 0, released_word = 1;

/// A buffer of a request.
struct BufferRange {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;

  std::byte* end() const { return begin + bytes; }
  bool touches(const BufferRange& other) const {
    return bytes > 0 && other.bytes > 0 && begin < other.end() && other.begin < end();
  }
};

BufferRange range_of(const void* data, Bytes size) {
  return {static_cast<std::byte*>(const_cast<void*>(data)), size.value()};
}

/// Whether results may take the place of the input in the pinned memory.
bool may_share(const Request& request) {
  using enum Collective;
  return request.collective == all_reduce || request.collective == reduce ||
         request.collective == scan;
}

bool can_stage(const std::vector<Message>& messages) {
  return std::ranges::none_of(messages, [](const Message& m) { return m.tensor || m.allocate; });
}

}  // namespace

std::unique_ptr<StagedCall> StagedCall::make(const Call& call, int rank, int ranks,
                                             const DeviceBuffer& where, PinnedMemory& pinned,
                                             Bytes longest_piece) {
  if (!where.driver->raises_words()) return nullptr;
  std::unique_ptr<StagedCall> staged{new StagedCall{where}};
  if (const auto* const request = std::get_if<Request>(&call)) {
    for (const Request& piece : pieces_of(*request, longest_piece)) staged->add(piece, rank, ranks);
  } else {
    const auto& messages = std::get<std::vector<Message>>(call);
    if (!can_stage(messages)) return nullptr;
    staged->add(messages);
  }
  try {
    staged->memory_ = pinned.allocate(Bytes{staged->size_});
  } catch (const LimitReached&) {
    return nullptr;
  }
  staged->resolve();
  return staged;
}

std::size_t StagedCall::reserve(std::size_t bytes) {
  constexpr std::size_t alignment = 256;
  const std::size_t at = (size_ + alignment - 1) / alignment * alignment;
  size_ = at + bytes;
  return at;
}

/// Buffers that share memory on the device do so in the pinned memory.
void StagedCall::add(const Request& request, int rank, int ranks) {
  const CheckedCall checked = check(request, rank, ranks);  // knows what this rank reads and writes
  const BufferRange input = range_of(checked.input, checked.input_bytes);
  const BufferRange output = range_of(checked.output, checked.output_bytes);
  const bool writes = !(request.collective == Collective::exscan && rank == 0);
  Piece piece{request};
  std::size_t input_at = 0, output_at = 0;
  if (input.touches(output)) {
    const std::byte* const first = std::min(input.begin, output.begin);
    const std::size_t at =
        reserve(static_cast<std::size_t>(std::max(input.end(), output.end()) - first));
    input_at = at + static_cast<std::size_t>(input.begin - first);
    output_at = at + static_cast<std::size_t>(output.begin - first);
  } else {
    if (input.bytes > 0) input_at = reserve(input.bytes);
    const bool shares = may_share(request) && input.bytes > 0 && output.bytes > 0;
    if (output.bytes > 0) output_at = shares ? input_at : reserve(output.bytes);
  }
  piece.operands.reserve(2);
  if (input.bytes > 0) {
    piece.operands.push_back({.at = input_at, .is_input = true});
    piece.copies.push_back({input.begin, input_at, input.bytes, true, false});
  }
  if (output.bytes > 0) {
    piece.operands.push_back({.at = output_at});
    if (writes) piece.copies.push_back({output.begin, output_at, output.bytes, false, true});
  }
  pieces_.push_back(std::move(piece));
}

void StagedCall::add(const std::vector<Message>& messages) {
  Piece piece{messages};
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    const BufferRange range =
        range_of(message.data, bytes_of(message.count, size_of(message.type)));
    if (range.bytes == 0) continue;
    const std::size_t at = reserve(range.bytes);
    piece.operands.push_back({.at = at, .message = i});
    // A receive's buffer is copied in, too: a shorter message leaves the rest of it as it was.
    piece.copies.push_back({range.begin, at, range.bytes, true, !message.sends});
  }
  pieces_.push_back(std::move(piece));
}

/// Makes addresses of offsets.
void StagedCall::resolve() {
  for (Piece& piece : pieces_)
    for (const Operand& operand : piece.operands) {
      void* const address = memory_.data() + operand.at;
      if (auto* const request = std::get_if<Request>(&piece.call)) {
        if (operand.is_input)
          request->input = address;
        else
          request->output = address;
      } else {
        std::get<std::vector<Message>>(piece.call)[operand.message].data = address;
      }
    }
  *word(arrived_word) = *word(released_word) = 0;
}

std::uint32_t* StagedCall::word(int index) const {
  return reinterpret_cast<std::uint32_t*>(memory_.data()) + index;
}

bool StagedCall::enter(void* stream) {
  bool can = true;
  at_place(where_, "putting a call into a stream", [&](DeviceDriver& driver) {
    int error = driver.raise_word(stream, word(arrived_word), 0);
    can = error != DeviceDriver::not_supported;
    if (!can) return 0;
    const auto copy = [&](const Piece& piece, bool in) {
      for (const Copy& one : piece.copies) {
        if (error != 0 || !(in ? one.in : one.out)) continue;
        std::byte* const host = memory_.data() + one.at;
        error = in ? driver.start_copy(DeviceDriver::Direction::to_host, host, one.device,
                                       one.bytes, stream)
                   : driver.start_copy(DeviceDriver::Direction::to_device, one.device, host,
                                       one.bytes, stream);
      }
    };
    std::uint32_t number = 0;
    for (const Piece& piece : pieces_) {
      copy(piece, true);
      if (error == 0) error = driver.raise_word(stream, word(arrived_word), ++number);
    }
    number = 0;
    for (const Piece& piece : pieces_) {
      if (error == 0) error = driver.wait_for_flag(stream, word(released_word), ++number);
      copy(piece, false);
    }
    return error;
  });
  return can;
}

bool StagedCall::arrived(std::size_t index) const {
  return std::atomic_ref{*word(arrived_word)}.load(std::memory_order_acquire) > index;
}

void StagedCall::release(std::size_t index) {
  std::atomic_ref{*word(released_word)}.store(static_cast<std::uint32_t>(index + 1),
                                              std::memory_order_release);
}

}  // namespace capstan
