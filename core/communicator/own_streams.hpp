// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "capstan/async/streams.hpp"
#include "capstan/observe/profiler.hpp"
#include "capstan/request.hpp"

namespace capstan {

/// The calls of a communicator in the order of streams, once there are any. Thread-safe.
class OwnStreams {
 public:
  /// Makes them, at the first use, which is collective. Throws what calls of a communicator throw.
  StreamCollectives& of(Communicator& communicator);
  /// Null before of() has returned. Waits for nothing.
  StreamCollectives* made() const { return published_.load(std::memory_order_acquire); }

  /// The profiler of the calls from now on, also of those of streams that are used later.
  void attach(const Profiler& profiler, const std::string& tag);
  /// The way of a call with a stream.
  std::string explain(const Request& request) const;

 private:
  mutable std::mutex mutex_;  // held while ranks make them
  std::unique_ptr<StreamCollectives> streams_;
  std::atomic<StreamCollectives*> published_ = nullptr;
  std::optional<std::pair<Profiler, std::string>> profiler_;  ///< and the tag
};

/// The same call, for whom the stream is known already.
Request without_stream(Request request);

}  // namespace capstan
