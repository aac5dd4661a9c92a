// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <utility>

#include "bindings/nccl/cudart/runtime.hpp"

namespace capstan::cudart {
namespace {

struct Text {
  cudaError_t error;
  const char* name;
  const char* text;
};

#define CAPSTAN_CUDART_TEXT(error, text) \
  Text {                                 \
    error, #error, text                  \
  }
constexpr std::array texts = {
    CAPSTAN_CUDART_TEXT(cudaSuccess, "no error"),
    CAPSTAN_CUDART_TEXT(cudaErrorInvalidValue, "invalid argument"),
    CAPSTAN_CUDART_TEXT(cudaErrorMemoryAllocation, "out of memory"),
    CAPSTAN_CUDART_TEXT(cudaErrorInitializationError, "initialization error"),
    CAPSTAN_CUDART_TEXT(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    CAPSTAN_CUDART_TEXT(cudaErrorInsufficientDriver,
                        "the driver is too old for the run-time library"),
    CAPSTAN_CUDART_TEXT(cudaErrorNoDevice,
                        "no device: CAPSTAN_CUDA_DEVICES or CUDA_VISIBLE_DEVICES leaves none"),
    CAPSTAN_CUDART_TEXT(cudaErrorInvalidDevice,
                        "invalid device ordinal: CAPSTAN_CUDA_DEVICES says how many there are"),
    CAPSTAN_CUDART_TEXT(
        cudaErrorInvalidResourceHandle,
        "invalid resource handle: the stream or event has been destroyed, or was never made"),
    CAPSTAN_CUDART_TEXT(cudaErrorNotReady, "not ready: work is still running"),
    CAPSTAN_CUDART_TEXT(cudaErrorLaunchOutOfResources, "no thread is to be had for a stream"),
    CAPSTAN_CUDART_TEXT(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    CAPSTAN_CUDART_TEXT(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    CAPSTAN_CUDART_TEXT(cudaErrorHostMemoryAlreadyRegistered, "the memory is already registered"),
    CAPSTAN_CUDART_TEXT(cudaErrorHostMemoryNotRegistered, "the memory is not registered"),
    CAPSTAN_CUDART_TEXT(
        cudaErrorLaunchFailure,
        "what ran on the stream failed; ncclGetLastError has the text for a collective"),
    CAPSTAN_CUDART_TEXT(cudaErrorNotPermitted,
                        "not permitted: what runs on a stream may not wait for streams"),
    CAPSTAN_CUDART_TEXT(
        cudaErrorNotSupported,
        "not supported: Capstan's stand-in for CUDA has host memory alone and runs no kernels"),
    CAPSTAN_CUDART_TEXT(cudaErrorStreamCaptureUnsupported,
                        "not supported: Capstan's stand-in for CUDA captures no graphs"),
    CAPSTAN_CUDART_TEXT(cudaErrorUnknown, "unknown error"),
};
#undef CAPSTAN_CUDART_TEXT

cudaError_t& last_error() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}

const Text* text_of(cudaError_t error) {
  for (const Text& text : texts)
    if (text.error == error) return &text;
  return nullptr;
}

}  // namespace

cudaError_t answer(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error() = error;
  return error;
}

int refuse();

/// For refused.cpp.
int refuse() {
  return answer(cudaErrorNotSupported);
}

}  // namespace capstan::cudart

using namespace capstan::cudart;

CAPSTAN_CUDART_EXPORT cudaError_t cudaGetLastError() {
  return std::exchange(last_error(), cudaSuccess);
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaPeekAtLastError() {
  return last_error();
}

CAPSTAN_CUDART_EXPORT const char* cudaGetErrorString(cudaError_t error) {
  const Text* const found = text_of(error);
  return found ? found->text : "unrecognized error code";
}

CAPSTAN_CUDART_EXPORT const char* cudaGetErrorName(cudaError_t error) {
  const Text* const found = text_of(error);
  return found ? found->name : "unrecognized error code";
}
