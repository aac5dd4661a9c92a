// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace capstan {

/// Linux draws this text at each boot: it tells hosts apart. Read once. Thread-safe. Throws
/// SystemError where /proc is not mounted.
const std::string& boot_id();

/// Identifies a namespace of this process; `kind` is "net", "pid" and so on. 0 where the kernel has
/// no such namespaces.
std::uint64_t namespace_id(const std::string& kind);

/// Equal for two processes that can reach each other over loopback: same running kernel and same
/// network namespace. Throws SystemError.
std::uint64_t network_identity();

/// Opaque text, equal on two ranks exactly if they can share memory as ranks of one host: same
/// running kernel (boot id), same host name and same network namespace. Throws SystemError.
std::string host_identity();

}  // namespace capstan
