#pragma once

#include <optional>
#include <vector>

#include "capstan/request.hpp"
#include "core/device/device_memory.hpp"

namespace capstan {

/// The device of a request's buffers; nothing if it has none. Throws InvalidArgument unless all of
/// them are on one device, to which the stream, if it is not null, belongs, too.
std::optional<DeviceBuffer> device_of(const Request& request, void* stream);

/// The pieces that a request is cut into, so that copies overlap: more than one for long calls
/// whose elements do not depend on each other. The same on all ranks.
std::vector<Request> pieces_of(const Request& request, Bytes longest);

}  // namespace capstan
