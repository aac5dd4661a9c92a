// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "capstan/async/streams.hpp"
#include "capstan/communicator.hpp"
#include "core/platform/device/device_block.hpp"

namespace capstan::perf {

/// Calls on memory of a GPU, in a stream of it. Not thread-safe.
class DeviceCalls {
 public:
  /// Collective. `vendor`: "cuda" or "hip"; of its GPUs the `number`-th, counted round. Throws
  /// SystemError where there is no driver or no GPU.
  DeviceCalls(Communicator& world, const std::string& vendor, int number);
  DeviceCalls(const DeviceCalls&) = delete;

  /// Zeros in memory of the GPU. Throws SystemError.
  std::shared_ptr<std::byte> allocate(std::size_t bytes);
  /// They return when the bytes are there. They throw SystemError.
  void write(std::byte* to, std::span<const std::byte> from);
  void read(std::span<std::byte> to, const std::byte* from);

  /// Puts a call into the stream.
  void run(const Request& request) { on_stream_.run(request); }
  void* stream() const { return stream_.stream; }
  const DeviceBuffer& where() const { return where_; }
  StreamCollectives& collectives() { return streams_; }
  /// Waits for all calls in the stream. Throws what one of them failed with.
  void finish();
  /// "device executor, 8 lanes: ring staged".
  std::string explain(const Request& request) const { return streams_.explain(request); }
  /// "ring staged", or "pinned staging".
  std::string algorithm(const Request& request) const;

 private:
  static constexpr std::size_t piece = 8 << 20;  // copied at a time
  struct OwnStream {
    const DeviceBuffer& where;
    void* stream;
    ~OwnStream();
  };
  void copy(void* to, const void* from, std::size_t bytes);

  const DeviceBuffer where_;
  DeviceBlocks blocks_;
  const std::shared_ptr<PinnedMemory::Handle> host_;
  const OwnStream stream_;  // outlives what uses it
  StreamCollectives streams_;
  StreamCollectives::OnStream on_stream_;
};

}  // namespace capstan::perf
