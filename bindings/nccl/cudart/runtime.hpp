// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "bindings/nccl/cudart/device.hpp"

#define CAPSTAN_CUDART_EXPORT extern "C" __attribute__((visibility("default")))

namespace capstan::cudart {

/// The error that a function of the interface returns.
struct Failure {
  cudaError_t error;
};

/// Throws unless `right`.
inline void require(bool right, cudaError_t otherwise = cudaErrorInvalidValue) {
  if (!right) throw Failure{otherwise};
}

/// Remembers an error as the thread's last one, and returns it.
cudaError_t answer(cudaError_t error);

/// Runs a function of the interface: no exception leaves it. What it returns is the answer; nothing
/// is success.
template <class F>
cudaError_t guarded(F function) {
  try {
    if constexpr (std::is_void_v<decltype(function())>) {
      function();
      return cudaSuccess;
    } else {
      return answer(function());
    }
  } catch (const Failure& failure) {
    return answer(failure.error);
  } catch (const std::bad_alloc&) {
    return answer(cudaErrorMemoryAllocation);
  } catch (const std::system_error&) {  // no thread is to be had
    return answer(cudaErrorLaunchOutOfResources);
  }
}

/// Objects by the handles that programs have of them. A handle is a number that is given once, so
/// that one that has been destroyed is an error, whatever was made since. Thread-safe.
template <class Handle, class T>
class Handles {
 public:
  Handle add(std::shared_ptr<T> object) {
    const std::scoped_lock lock{mutex_};
    last_ += step;
    const auto handle = reinterpret_cast<Handle>(last_);
    objects_.emplace(handle, std::move(object));
    return handle;
  }
  std::shared_ptr<T> find(Handle handle) {
    const std::scoped_lock lock{mutex_};
    const auto found = objects_.find(handle);
    require(found != objects_.end(), cudaErrorInvalidResourceHandle);
    return found->second;
  }
  std::shared_ptr<T> remove(Handle handle) {
    const std::scoped_lock lock{mutex_};
    auto entry = objects_.extract(handle);
    require(static_cast<bool>(entry), cudaErrorInvalidResourceHandle);
    return std::move(entry.mapped());
  }

 private:
  static constexpr std::uintptr_t step = 16;  // beyond the handles that are constants

  std::mutex mutex_;
  std::uintptr_t last_ = 0;
  std::unordered_map<Handle, std::shared_ptr<T>> objects_;
};

/// The stream of a handle, also of the constants; the default one is that of the current device.
std::shared_ptr<Stream> stream_of(cudaStream_t handle);
/// Puts work into a stream.
void put(cudaStream_t handle, Stream::Work work);
/// Waits for a stream and answers with its failure.
cudaError_t synchronize(cudaStream_t handle);
/// Throws where the thread is that of a stream: it would wait for itself.
void require_that_it_may_wait();

/// How memory was had; cudaMemoryTypeUnregistered for memory that is not from here.
cudaMemoryType type_of(const void* address);

}  // namespace capstan::cudart
