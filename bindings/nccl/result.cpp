// SPDX-License-Identifier: Apache-2.0
#include "bindings/nccl/result.hpp"

#include <mutex>

#include "bindings/nccl/comm.hpp"
#include "capstan/error.hpp"

namespace capstan::nccl {
namespace {

/// The last error of the process, as NCCL has it: a program may ask on another thread.
struct LastError {
  std::mutex mutex;
  std::string text;
};

LastError& last() {
  static auto* const one = new LastError;
  return *one;
}

ncclResult_t result_of(ErrorCode code) {
  switch (class_of(code)) {
    case ErrorCode::invalid_argument:
      return code == ErrorCode::not_supported ? ncclInvalidUsage : ncclInvalidArgument;
    case ErrorCode::system_error:
    case ErrorCode::limit_reached:
    case ErrorCode::bootstrap_failed:
      return ncclSystemError;
    case ErrorCode::peer_lost:
    case ErrorCode::aborted:
      return ncclRemoteError;
    case ErrorCode::timed_out:
    case ErrorCode::deadline_exceeded:
      return ncclTimeout;
    case ErrorCode::mismatch:
    case ErrorCode::truncated:
      return ncclInvalidUsage;
    default:
      return ncclInternalError;
  }
}

void remember(const std::string& text) {
  const std::scoped_lock lock{last().mutex};
  last().text = text;
}

}  // namespace

ncclResult_t result_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    remember(known.what());
  } catch (...) {
    remember("an unknown error");
  }
  return result_of(code_of(error));
}

int refuse(const char* name, const char* reason);

ncclResult_t refused(const std::string& reason) {
  remember(reason);
  return ncclInvalidUsage;
}

/// For refused.cpp.
int refuse(const char* name, const char* reason) {
  return refused(std::string{name} + " is not supported: " + reason);
}

std::string last_error() {
  const std::scoped_lock lock{last().mutex};
  return last().text;
}

}  // namespace capstan::nccl

extern "C" const char* pncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "a call of CUDA failed";
    case ncclSystemError:
      return "the system, the network or start-up failed; ncclGetLastError has the text";
    case ncclInternalError:
      return "an internal error; ncclGetLastError has the text";
    case ncclInvalidArgument:
      return "an argument cannot work; ncclGetLastError says which";
    case ncclInvalidUsage:
      return "ranks made different calls, or this is not supported; ncclGetLastError says which";
    case ncclRemoteError:
      return "a peer died, left or aborted; ncclGetLastError names it";
    case ncclInProgress:
      return "the operation is in progress";
    case ncclTimeout:
      return "a peer did not come in time; ncclGetLastError names it";
    default:
      return "unknown result code";
  }
}

/// The text stays valid until the same thread asks again.
extern "C" const char* pncclGetLastError(ncclComm_t) {
  thread_local std::string text;
  text = capstan::nccl::last_error();
  return text.c_str();
}

CAPSTAN_NCCL_EXPORT(GetErrorString);
CAPSTAN_NCCL_EXPORT(GetLastError);

/// Tells Capstan's backend over NCCL that this library is none of NVIDIA's.
extern "C" const char ncclIsCapstan[] = "Capstan";
