// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "core/platform/net/shared_library.hpp"

namespace capstan {

/// Settings that libfabric and the libraries it loads read when they are loaded. Values that the
/// user has set win. Not while other threads use the environment.
inline void prepare_libfabric_environment() {
  ::setenv("IPATH_NO_BACKTRACE", "1", 0);  // PSM leaves the signal handlers of the program alone
  ::setenv("FI_UNIVERSE_SIZE", "64", 0);   // with the default, verbs' queues exceed many devices
  // The provider tcp touches some five thousand buffers of this size for each endpoint: frames fit.
  ::setenv("FI_OFI_RXM_BUFFER_SIZE", "8448", 0);
  // Capstan keeps registrations itself. In libfabric's cache closed ones stay valid for peers. cxi
  // opens no domain without that cache, and ends keys all the same.
  std::error_code ignored;
  const bool is_loaded =
      system_loader().loaded({"libfabric.so.1"}) != nullptr;  // it comes too late
  if (!is_loaded && !std::filesystem::exists("/sys/class/cxi", ignored))
    ::setenv("FI_MR_CACHE_MAX_COUNT", "0", 0);
}

/// Whether the environment turns libfabric's cache of registrations off.
inline bool libfabric_cache_is_off() {
  const char* const count = std::getenv("FI_MR_CACHE_MAX_COUNT");
  return count && std::string_view{count} == "0";
}

}  // namespace capstan
