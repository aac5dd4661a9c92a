// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "capstan/message.hpp"
#include "capstan/request.hpp"
#include "core/platform/device/device_memory.hpp"

namespace capstan {

/// A buffer of a call, and what errors call it.
struct StreamBuffer {
  std::string name;
  const void* data = nullptr;
  Elements count{};
};
/// The buffers that this rank uses. A non-root's unused buffer may hold any pointer.
std::vector<StreamBuffer> buffers_of(const Request& request, int rank);
/// Throws InvalidArgument for messages of any length, as their memory is not known before.
std::vector<StreamBuffer> buffers_of(const std::vector<Message>& messages);

/// The device of the buffers of a call, which errors name; nothing if it has none. Throws
/// InvalidArgument unless all of them are on one device, to which the stream, if it is not null,
/// belongs, too.
std::optional<DeviceBuffer> device_of(std::string_view call,
                                      const std::vector<StreamBuffer>& buffers, void* stream);

/// Whether the stream is being captured into a graph; of a null one false.
bool is_captured(const DeviceBuffer& where, void* stream);
/// Throws InvalidArgument if it is.
void refuse_captured(std::string_view call, const DeviceBuffer& where, void* stream);

/// The pieces that a request is cut into, so that copies overlap: more than one for long calls
/// whose elements do not depend on each other. The same on all ranks.
std::vector<Request> pieces_of(const Request& request, Bytes longest);

}  // namespace capstan
