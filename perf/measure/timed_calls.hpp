// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "capstan/communicator.hpp"
#include "capstan/tensor_request.hpp"
#include "perf/measure/cell.hpp"

namespace capstan::perf {

class DeviceCalls;

/// How a program makes the calls that are timed.
enum class Calling : std::uint8_t {
  blocking,  ///< one after the other
  started,   ///< by the start_ form, and waited for: all buffers are under way at once
  fused      ///< one all_reduce_fused for all buffers
};
std::string_view name_of(Calling form);

/// The make-up of one timed call, and where its buffers lie.
struct CallOptions {
  Calling form = Calling::blocking;
  int many = 1;              ///< buffers of a timed call, each as long as the cell says
  bool off_cache = false;    ///< the next call uses other buffers, so that no cache has them
  std::uint64_t offset = 0;  ///< elements by which buffers lie behind the begin of a page
};

/// The memory of a rank in which all its buffers lie, one after the other; and of one buffer.
struct BufferArea {
  std::byte *input = nullptr, *output = nullptr;
  std::size_t bytes = 0;  ///< of each
};

/// The bytes that calls need for buffers of `largest` bytes, where caches hold `cache` bytes.
std::size_t area_bytes(Bytes largest, Bytes cache, const CallOptions& options);

/// The calls of one cell on one rank. Not thread-safe.
class TimedCalls {
 public:
  /// All outlive it. `device`: null for host memory.
  TimedCalls(Communicator& ranks, DeviceCalls* device, const Cell& cell, const BufferArea& area,
             const CallOptions& options);

  /// One timed call. On a device it returns when the call is in the stream.
  void run() {
    if (simple_) return ranks_.run(requests_.front());
    begin();
    end();
  }
  /// The same in two parts, between which a program may compute.
  void begin();
  void end();
  /// Lets the call that has begun continue by itself while the program computes.
  void continue_by_thread();
  /// The call by which the library decides how to run all of them.
  const Request& decisive() const { return form_ == Calling::fused ? whole_ : requests_.front(); }
  /// The buffers of the first call.
  const std::vector<BufferArea>& buffers() const { return buffers_; }

 private:
  void step();
  void use_place(std::size_t place);

  Communicator& ranks_;
  DeviceCalls* const device_;
  const Calling form_;
  const bool simple_;
  std::vector<BufferArea> buffers_;
  std::vector<Request> first_, requests_;  // of the first call, and of the next one
  TensorRequest fused_;
  Request whole_;  // a fused call as one of its length
  std::vector<Work> under_way_;
  std::size_t stride_ = 0, places_ = 1, place_ = 0;
};

}  // namespace capstan::perf
