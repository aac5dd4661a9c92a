// SPDX-License-Identifier: Apache-2.0
#include "core/communicator/own_streams.hpp"

#include <chrono>

#include "core/base/error_text.hpp"
#include "core/communicator/communicator_prepared.hpp"
#include "core/communicator/retired.hpp"

namespace capstan {

using namespace std::chrono_literals;

StreamCollectives& Communicator::streams() {
  Impl& impl = Impl::of(*this);
  if (const auto failure = impl.engine.failure()) std::rethrow_exception(failure->exception());
  if (StreamCollectives* const known = impl.streams.made()) return *known;
  StreamCollectives& streams = impl.streams.of(*this);
  if (const auto failure = impl.engine.failure()) streams.abort(text_of(failure->exception()));
  return streams;
}

StreamCollectives& OwnStreams::of(Communicator& communicator) {
  const std::lock_guard lock{mutex_};
  if (!streams_) {
    await_retired(Deadline::in(5s));  // they may still hold parts of the device
    auto streams = std::make_unique<StreamCollectives>(communicator);
    if (profiler_) streams->attach(profiler_->first, profiler_->second);
    streams_ = std::move(streams);
    published_.store(streams_.get(), std::memory_order_release);
  }
  return *streams_;
}

void OwnStreams::attach(const Profiler& profiler, const std::string& tag) {
  const std::lock_guard lock{mutex_};
  profiler_.emplace(profiler, tag);
  if (streams_) streams_->attach(profiler, tag);
}

std::string OwnStreams::explain(const Request& request) const {
  StreamCollectives* const streams = made();
  if (streams) return streams->explain(without_stream(request));
  return "undecided: no call has been made in a stream's order yet, at which ranks decide";
}

Request without_stream(Request request) {
  request.stream = nullptr;
  return request;
}

}  // namespace capstan
