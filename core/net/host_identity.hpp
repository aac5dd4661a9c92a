#pragma once

#include <string>

namespace capstan {

/// Opaque text, equal on two ranks exactly if they can share memory as ranks of one host: same
/// running kernel (boot id), same host name and same network namespace. Throws SystemError.
std::string host_identity();

}  // namespace capstan
