// SPDX-License-Identifier: Apache-2.0
#include "core/communicator/host_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "capstan/deadline.hpp"
#include "capstan/error.hpp"
#include "core/communicator/device_agreement.hpp"
#include "core/communicator/stream_buffers.hpp"
#include "core/platform/device/at_place.hpp"
#include "core/platform/device/gpu_page_locker.hpp"
#include "core/platform/device/relaxed_capture.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;

/// How much of a long call is copied at a time, while the piece before it is reduced.
constexpr Bytes longest_piece{std::uint64_t{8} << 20};

void await_end(const Work& work) {
  try {
    static_cast<void>(work.wait_until(Deadline::in(5s)));
  } catch (const std::exception&) {  // it has ended
  }
}

/// The pieces of a call whose stream does not copy by itself.
std::vector<StagedCall::Call> pieces_of(const HostCall& call) {
  const auto* const request = std::get_if<Request>(&call.call);
  if (!request) return {call.call};
  const auto pieces = pieces_of(*request, longest_piece);
  return {pieces.begin(), pieces.end()};
}

}  // namespace

HostCalls::HostCalls(Communicator& group, Bytes most_pinned, Hooks hooks)
    : group_(group),
      most_pinned_(most_pinned),
      hooks_(std::move(hooks)),
      streams_copy_(have_processes_of_their_own(group)) {}

HostCalls::~HostCalls() {
  take_ended();
  const Deadline deadline = Deadline::in(5s);
  std::erase_if(passing_, [&](const Passing& call) {
    const bool came = call.event.comes(deadline);
    if (came) events_.give_back(call.event);
    return came;
  });
  // A stream that has not passed a wait reads its word later. That is never freed then.
  for (Passing& call : passing_) keep_for_good(std::shared_ptr<StagedCall>{std::move(call.staged)});
  if (!passing_.empty()) keep_for_good(std::make_shared<PinnedMemory::Handle>(std::move(number_)));
}

void HostCalls::enter(HostCall& call, void* stream, bool has_handle) {
  const bool may_copy = streams_copy_ && !has_handle && !is_for_cards(call);
  if (!(may_copy && stage(call, stream))) enter_by_events(call, stream);
}

bool HostCalls::is_for_cards(const HostCall& call) const {
  const auto* const messages = std::get_if<std::vector<Message>>(&call.call);
  return messages && std::ranges::any_of(*messages, hooks_.may_stay_on_device);
}

/// False where the call cannot be a StagedCall.
bool HostCalls::stage(HostCall& call, void* stream) {
  call.staged = StagedCall::make(call.call, group_.rank(), group_.size(), *call.where,
                                 pinned(*call.where), longest_piece);
  if (!call.staged) return false;
  if (!probe_) probe_.emplace(*call.where);
  call.passed = event_at(*call.where);
  try {
    if (!call.staged->enter(stream)) {
      call.staged.reset();
      events_.give_back(std::exchange(call.passed, {}));
      return false;
    }
    call.passed.record(stream);
  } catch (...) {  // what is in the stream by now continues
    call.staged->release_all();
    keep_for_good(std::shared_ptr<StagedCall>{std::move(call.staged)});
    throw;
  }
  return true;
}

/// Events both ways: the call waits for one of the stream's, the stream for a number.
void HostCalls::enter_by_events(HostCall& call, void* stream) {
  const DeviceBuffer& where = *call.where;
  make_number(where);
  call.begins = event_at(where);
  call.passed = event_at(where);
  std::uint32_t number = put_ + 1;
  call.begins.record(stream);
  at_place(where, "putting a call into a stream", [&](DeviceDriver& driver) {
    const int error = driver.wait_for_flag(stream, number_word(), number);
    if (error == DeviceDriver::not_supported) number = 0;
    return number != 0 ? error : 0;
  });
  call.passed.record(stream);
  call.releases = number;
  if (number != 0) put_ = number;
}

PinnedMemory& HostCalls::pinned(const DeviceBuffer& where) {
  if (!pinned_) pinned_.emplace(make_page_locker(where), most_pinned_);
  return *pinned_;
}

void HostCalls::make_number(const DeviceBuffer& where) {
  if (!number_.empty()) return;
  number_ = pinned(where).allocate(Bytes{64});
  *number_word() = 0;
}

std::uint32_t* HostCalls::number_word() const {
  return reinterpret_cast<std::uint32_t*>(number_.data());
}

/// An event that is not in use.
StreamEvent HostCalls::event_at(const DeviceBuffer& where) {
  constexpr std::size_t at_a_time = 4;  // the driver takes a microsecond to tell
  take_ended();
  forget_passed(std::min(passing_.size(), at_a_time));
  return events_.take(where);
}

/// Takes over the calls that have ended from the thread that runs them.
void HostCalls::take_ended() {
  std::deque<Ended> ended;
  {
    const std::lock_guard lock{mutex_};
    ended = std::exchange(ended_, {});
  }
  for (Ended& call : ended) {
    events_.give_back(call.begins);
    if (call.passing.event) passing_.push_back(std::move(call.passing));
  }
}

/// Forgets those of the first `looked_at` calls that their streams have passed. Keeps the memory of
/// a call that the driver reports an error for: the device may still use it.
void HostCalls::forget_passed(std::size_t looked_at) {
  for (std::size_t i = 0; i < looked_at; ++i) {
    Passing call = std::move(passing_.front());
    passing_.pop_front();
    const RelaxedCapture relaxed{*call.event.at.driver};
    try {
      if (call.event.has_come())
        events_.give_back(call.event);
      else
        passing_.push_back(std::move(call));
    } catch (const Error&) {
      keep_for_good(std::shared_ptr<StagedCall>{std::move(call.staged)});
    }
  }
}

bool HostCalls::all_passed() {
  take_ended();
  forget_passed(passing_.size());
  return passing_.empty();
}

/// Two pieces are under way at a time, so that copies of one overlap the work on the other.
void HostCalls::run(HostCall& call) {
  std::optional<HostMemoryOnly> known;
  if (call.staged) known.emplace();
  const auto own = call.staged ? std::vector<StagedCall::Call>{} : pieces_of(call);
  const std::size_t pieces = call.staged ? call.staged->pieces() : own.size();
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    await_stream(call, piece);
    if (piece == 0) call.began = std::chrono::steady_clock::now();
    Work work = start(call.staged ? call.staged->piece(piece) : own[piece], call);
    if (pieces > 1) work.ensure_progress();
    if (const auto before = std::exchange(call.under_way, std::move(work))) {
      before->wait();
      if (call.staged) call.staged->release(piece - 1);
    }
  }
  call.under_way->wait();
}

std::string HostCalls::way_of(const HostCall& call) const {
  const StagedCall::Call first = call.staged ? call.staged->piece(0) : pieces_of(call).front();
  if (const auto* const request = std::get_if<Request>(&first)) {
    const std::string algorithm = group_.algorithm(*request);
    return call.where ? "pinned staging: " + algorithm : algorithm;
  }
  if (!call.where) return "host memory";
  const auto has_data = [](const Message& message) { return message.count > Elements{0}; };
  const auto messages = static_cast<std::size_t>(
      std::ranges::count_if(std::get<std::vector<Message>>(first), has_data));
  const std::size_t staged = call.staged ? messages : call.staged_messages->load();
  if (staged == messages) return "pinned staging";
  return staged == 0 ? "network cards" : "network cards and pinned staging";
}

void HostCalls::await_stream(const HostCall& call, std::size_t piece) {
  for (int polls = 0; !has_stream_come(call, piece); ++polls) {
    hooks_.meanwhile();
    std::this_thread::sleep_for(polls < 100 ? 5us : 50us);
  }
}

bool HostCalls::has_stream_come(const HostCall& call, std::size_t piece) {
  if (call.staged) {
    if (call.staged->arrived(piece)) return true;
    probe_->look();
    return false;
  }
  if (!call.begins || piece > 0) return true;
  const RelaxedCapture relaxed{*call.begins.at.driver};
  return call.begins.has_come();
}

Work HostCalls::start(const StagedCall::Call& piece, const HostCall& call) {
  if (const auto* const request = std::get_if<Request>(&piece)) return group_.start(*request);
  return hooks_.start_exchange(std::get<std::vector<Message>>(piece), call.staged_messages);
}

/// The last piece may use the memory for a while after another one has failed.
void HostCalls::end(HostCall& call) {
  if (call.under_way) await_end(*call.under_way);
  if (call.staged) call.staged->release_all();
  if (call.releases != 0)
    std::atomic_ref{*number_word()}.store(call.releases, std::memory_order_release);
  const std::lock_guard lock{mutex_};
  ended_.push_back({call.begins, {call.passed, std::move(call.staged)}});
}

}  // namespace capstan
