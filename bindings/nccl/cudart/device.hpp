// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "bindings/nccl/cudart/stream.hpp"

namespace capstan::cudart {

/// The streams of a device. Its default stream waits for all work that its blocking streams have,
/// and they wait for the default stream's. Thread-safe.
class Device {
 public:
  explicit Device(int index) : default_(std::make_shared<Stream>(index, cudaStreamDefault)) {}

  const std::shared_ptr<Stream>& default_stream() const { return default_; }
  std::shared_ptr<Stream> add(unsigned flags);

  /// Runs `work` on the stream, in order; at once where it is the default stream and nothing runs.
  /// `after` is passed at its end.
  void put(Stream& stream, Stream::Work work, std::shared_ptr<Moment> after = nullptr);
  /// The moment after all work of the stream.
  std::shared_ptr<Moment> mark(Stream& stream);
  /// Whether all work of the stream has ended.
  bool idle(const Stream& stream);
  /// Waits for all streams, also those that have been destroyed with work in them. The first error
  /// of any.
  cudaError_t synchronize();
  /// The first error of the default stream and of those that it waits for.
  cudaError_t take_failure();

 private:
  std::vector<std::shared_ptr<Moment>> before(const Stream& stream);

  std::mutex mutex_;
  const std::shared_ptr<Stream> default_;
  std::vector<std::shared_ptr<Stream>> streams_;  ///< without the default one
};

int device_count();
/// Throws Failure{cudaErrorInvalidDevice} for one that is not there.
Device& device(int index);
/// The device that the calling thread has chosen.
int& current_device();

}  // namespace capstan::cudart
