// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "transports/transport.hpp"
#include "transports/verbs/device.hpp"
#include "transports/verbs/device_array.hpp"

namespace capstan::verbs {

/// The requests in flight on one queue pair. The device reports the completion of only some of
/// them; each report covers all earlier requests.
class SendQueue {
 public:
  struct Shape {
    std::uint32_t depth;  // most requests in flight
    bool inline_data;     // short data travel in the request
    Rank peer;            // marks the completions
  };
  /// The most bytes of short data.
  static constexpr std::uint32_t most_short = 64;

  /// A queue pair for reliable connections. Throws SystemError.
  SendQueue(const Device& device, ibv_cq* completions, ibv_srq* receives, Shape shape);

  Rank peer() const { return shape_.peer; }
  ibv_qp* queue_pair() const { return queue_pair_.get(); }
  std::uint32_t room() const {
    return shape_.depth - static_cast<std::uint32_t>(begun_ - completed_);
  }

  /// The kind of request, and where a write goes.
  struct Target {
    ibv_wr_opcode opcode;
    std::uint64_t address = 0;
    std::uint32_t key = 0;
    bool reported = false;  // always report its completion
  };
  /// Both need room() and take effect with submit(). Short data may change after submit(); long
  /// data when reads() is false.
  void add_short(const Target& target, const void* data, std::uint32_t length);
  void add_long(const Target& target, const void* data, std::uint32_t length, std::uint32_t key,
                std::shared_ptr<const MemoryKeys> registration);
  /// Reads into memory with this key. Takes the length off `read` when it has come.
  void add_read(const Target& source, void* to, std::uint32_t length, std::uint32_t key,
                std::shared_ptr<const MemoryKeys> registration, std::shared_ptr<RemoteRead> read);
  /// The reads that are in flight.
  std::uint32_t reads_in_flight() const { return reads_in_flight_; }
  /// Hands the requests to the device. Returns 0, or the error number of the first refusal.
  int submit();

  /// Handles a completion whose wr_id belongs to this queue.
  void complete(std::uint64_t wr_id);
  static Rank peer_of(std::uint64_t wr_id) {
    return Rank{static_cast<std::int32_t>(wr_id >> count_bits)};
  }

  /// Whether the device may still read long data.
  bool reads() const { return last_long_ > completed_; }
  /// Whether a report is awaited.
  bool awaits_answer() const { return last_reported_ > completed_; }
  /// Whether no report covers the last long data yet. The last request of a wake then asks for one.
  bool owes_report() const { return last_long_ > last_reported_; }
  /// Destroys the queue pair, so that nothing is read any more.
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
  int error_ = 0;            // of the first refused request
  // Numbers of requests: the last one made, completed, made with a report, with long data.
  std::uint64_t begun_ = 0, completed_ = 0, last_reported_ = 0, last_long_ = 0;
  /// The resources that a request needs until it is completed.
  struct Held {
    std::uint64_t until;
    std::shared_ptr<const MemoryKeys> memory;
    std::shared_ptr<RemoteRead> read{};  ///< null: it is a write
    std::uint32_t length = 0;            ///< of a read
  };
  std::deque<Held> held_;
  std::uint32_t reads_in_flight_ = 0;
};

}  // namespace capstan::verbs
