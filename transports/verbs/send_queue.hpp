#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "transports/verbs/device.hpp"
#include "transports/verbs/device_array.hpp"

namespace capstan::verbs {

/// The requests under way on one queue pair. The device reports only some of them as completed:
/// each report covers all before it.
class SendQueue {
 public:
  struct Shape {
    std::uint32_t depth;  // requests under way at most
    bool inline_data;     // short data travel in the request
    std::uint64_t peer;   // marks the completions
  };
  /// Short data are at most this long.
  static constexpr std::uint32_t most_short = 64;

  /// A queue pair for reliable connections. Throws SystemError.
  SendQueue(const Device& device, ibv_cq* completions, ibv_srq* receives, Shape shape);

  ibv_qp* queue_pair() const { return queue_pair_.get(); }
  std::uint32_t room() const {
    return shape_.depth - static_cast<std::uint32_t>(begun_ - completed_);
  }

  /// Where a request writes to; not used by messages.
  struct Target {
    ibv_wr_opcode opcode;
    std::uint64_t address = 0;
    std::uint32_t key = 0;
    bool reported = false;  // the device is to report the completion in any case
  };
  /// These need room and take effect with submit(). Short data are copied by submit() at the
  /// latest; long data stay until reads() says that they may change.
  void add_short(const Target& target, const void* data, std::uint32_t length);
  void add_long(const Target& target, const void* data, std::uint32_t length, std::uint32_t key,
                std::shared_ptr<const MemoryKeys> registration);
  /// Hands the requests to the device. Returns 0, or the error number of the first refusal.
  int submit();

  /// For a completion whose wr_id is of this queue.
  void complete(std::uint64_t wr_id);
  static std::uint64_t peer_of(std::uint64_t wr_id) { return wr_id >> count_bits; }

  /// Whether long data are still being read.
  bool reads() const { return last_long_ > completed_; }
  /// Whether a report is due.
  bool awaits_answer() const { return last_reported_ > completed_; }
  /// Long data that nothing reports yet: the last request of a wake is to be reported then.
  bool owes_report() const { return last_long_ > last_reported_; }
  /// Ends the queue pair at once, so that nothing is read any more.
  void abandon();

 private:
  static constexpr int count_bits = 40;
  static constexpr std::uint64_t count_mask = (std::uint64_t{1} << count_bits) - 1;
  static constexpr std::size_t most_at_once = 16;

  ibv_send_wr& add(const Target& target, const void* data, std::uint32_t length, std::uint32_t key);

  Shape shape_;
  DeviceArray<std::byte>
      slots_;  // `depth` times most_short, where the device cannot inline short data
  QueuePair queue_pair_;
  std::array<ibv_send_wr, most_at_once> requests_;
  std::array<ibv_sge, most_at_once> places_;
  std::size_t pending_ = 0;  // requests that submit() will hand over
  int error_ = 0;            // with which the device has refused some
  // Requests so far, and the number of the last that was completed, is reported, reads long data.
  std::uint64_t begun_ = 0, completed_ = 0, last_reported_ = 0, last_long_ = 0;
  struct HeldRegistration {
    std::uint64_t until;
    std::shared_ptr<const MemoryKeys> memory;
  };
  std::deque<HeldRegistration> held_;
};

}  // namespace capstan::verbs
