// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "capstan/error.hpp"
#include "capstan/export.hpp"

namespace CAPSTAN_EXPORT capstan {

/// A backend was asked for what it cannot do. The text names the backend, the call and a remedy.
/// The backend stays usable. Its code is ErrorCode::not_supported.
class NotSupported : public InvalidArgument {
 public:
  NotSupported(std::string_view backend, const std::string& message)
      : InvalidArgument(message, ErrorCode::not_supported), backend_(backend) {}
  const std::string& backend() const { return backend_; }

 private:
  std::string backend_;
};

/// The library under a backend (MPI, NCCL, RCCL) reported an error. The text names the rank and the
/// call, and has the library's own words.
class BackendError : public SystemError {
 public:
  BackendError(std::string_view backend, int native_code, const std::string& message)
      : SystemError(message), backend_(backend), native_code_(native_code) {}
  const std::string& backend() const { return backend_; }
  /// The library's own number: an error class of MPI, an ncclResult_t.
  int native_code() const { return native_code_; }

 private:
  std::string backend_;
  int native_code_;
};

}  // namespace CAPSTAN_EXPORT capstan
