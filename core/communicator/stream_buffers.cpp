// SPDX-License-Identifier: Apache-2.0
#include "core/communicator/stream_buffers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "capstan/error.hpp"

namespace capstan {
namespace {

/// Only the lengths of these calls' buffers are equal, element by element.
bool is_elementwise(Collective collective) {
  using enum Collective;
  constexpr std::array all{broadcast, reduce, all_reduce, scan, exscan};
  return std::ranges::find(all, collective) != all.end();
}

void check_stream(std::string_view call, const DeviceBuffer& where, void* stream) {
  if (where.driver->is_stream_of(where.place, stream)) return;
  DevicePlace place;
  const int error = where.driver->place_of_stream(stream, place);
  if (error == DeviceDriver::not_supported) return;
  if (error != 0)
    throw InvalidArgument(fmt::format("{}: {} is no stream of {}: {}", call, stream,
                                      where.driver->name(), where.driver->text_of(error)));
  if (place.device != where.place.device)
    throw InvalidArgument(fmt::format(
        "{}: the stream is device {}'s, and the buffers are on device {}: pass a stream of theirs",
        call, place.device, where.place.device));
}

}  // namespace

std::vector<StreamBuffer> buffers_of(const Request& request, int rank) {
  using enum Collective;
  const Collective collective = request.collective;
  const bool is_root = !has_root(collective) || request.root == rank;
  const bool reads =
      is_root || (collective != broadcast && collective != scatter && collective != scatter_v);
  const bool writes =
      is_root || (collective != reduce && collective != gather && collective != gather_v);
  std::vector<StreamBuffer> buffers;
  if (reads) buffers.push_back({"input", request.input, request.input_count});
  if (writes) buffers.push_back({"output", request.output, request.output_count});
  return buffers;
}

std::vector<StreamBuffer> buffers_of(const std::vector<Message>& messages) {
  std::vector<StreamBuffer> buffers;
  for (const Message& message : messages) {
    if (message.allocate)
      throw InvalidArgument(
          fmt::format("exchange: the message from rank {} has any length, but a stream needs its "
                      "buffer beforehand: pass a buffer",
                      message.peer));
    const void* const data = message.tensor ? message.tensor->data : message.data;
    buffers.push_back({fmt::format("buffer of the {} rank {}",
                                   message.sends ? "message to" : "message from", message.peer),
                       data, message.tensor ? message.tensor->count() : message.count});
  }
  return buffers;
}

std::optional<DeviceBuffer> device_of(std::string_view call,
                                      const std::vector<StreamBuffer>& buffers, void* stream) {
  std::optional<DeviceBuffer> found;
  std::string_view first;
  const void* former = nullptr;
  for (const auto& [name, data, count] : buffers) {
    if (!data || count == Elements{0}) continue;
    if (data == former) continue;
    const auto place =
        devices_possible.load(std::memory_order_relaxed) ? find_device_buffer(data) : std::nullopt;
    former = data;
    if (!place)
      throw InvalidArgument(
          fmt::format("{}: the {} is host memory, which no stream orders: call the communicator, "
                      "or pass memory of the device",
                      call, name));
    if (found && found->place.device != place->place.device)
      throw InvalidArgument(fmt::format(
          "{}: the {} is on device {}, the {} on device {}: one stream orders one device's", call,
          first, found->place.device, name, place->place.device));
    if (!found) first = name;
    found = place;
  }
  if (found && stream) check_stream(call, *found, stream);
  return found;
}

bool is_captured(const DeviceBuffer& where, void* stream) {
  bool capturing = false;
  return stream && where.driver->is_capturing(stream, capturing) == 0 && capturing;
}

void refuse_captured(std::string_view call, const DeviceBuffer& where, void* stream) {
  if (is_captured(where, stream))
    throw InvalidArgument(fmt::format(
        "{}: the stream is being captured into a graph, whose replays the host would not take part "
        "in: end the capture before the call",
        call));
}

std::vector<Request> pieces_of(const Request& request, Bytes longest) {
  const std::uint64_t element = size_of(request.type).value();
  const Elements step{std::max<std::uint64_t>(longest.value() / element, 1)};
  const Elements total = std::max(request.input_count, request.output_count);
  if (!is_elementwise(request.collective) || total <= step) return {request};
  std::vector<Request> pieces;
  for (Elements done; done < total; done += step) {
    Request piece = request;
    const Elements length = std::min(step, total - done);
    const std::uint64_t offset = done.value() * element;
    if (piece.input && piece.input_count > Elements{0}) {
      piece.input = static_cast<const std::byte*>(piece.input) + offset;
      piece.input_count = length;
    }
    if (piece.output && piece.output_count > Elements{0}) {
      piece.output = static_cast<std::byte*>(piece.output) + offset;
      piece.output_count = length;
    }
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

}  // namespace capstan
