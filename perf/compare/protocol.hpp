// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "capstan/collective.hpp"
#include "capstan/error.hpp"
#include "perf/measure/message_patterns.hpp"

namespace capstan::perf::worker_protocol {

/// The protocol between the coordinator of a comparison and the ranks of its workers. They exchange
/// values through a store (core/bootstrap/store) that the coordinator serves. So ranks can be on
/// any host, and only processes that know the secret take part. Each worker has its own scope:
///
///   binding           whether ranks bind themselves to cores
///   machine/RANK      the processors that a rank may run on; every rank reads all of them
///   order/N           the N-th order to all ranks, from 1 on
///   answer/N/RANK     a rank's answer to it; N = 0: whether it has joined its library's world
///   begin/N           the N-th order is to time calls that are alone: the time of the first one
///   calls/N/RANK      the N-th order is to list calls: the CallTimes of a rank
///
/// Both sides are of one build, on machines of one architecture.

/// "host:port" of the store, and its secret.
inline constexpr const char* coordinator_variable = "CAPSTAN_COORDINATOR";
inline constexpr const char* secret_variable = "CAPSTAN_COORDINATOR_SECRET";
/// The scope of the worker that a process belongs to.
inline constexpr const char* worker_variable = "CAPSTAN_WORKER";

/// The longest time that the ranks of a worker may take to join.
inline constexpr std::chrono::seconds time_to_join{60};

/// Pairs of collectives that do the same as an all-reduce.
inline constexpr std::pair<Collective, Collective> parts_of_all_reduce[] = {
    {Collective::reduce, Collective::broadcast},
    {Collective::reduce_scatter, Collective::all_gather}};

inline constexpr std::uint64_t most_started = 4096;
inline constexpr std::uint32_t most_in_window = 4096;

struct Order {
  enum class Kind : std::uint32_t {
    prepare,     ///< allocate the buffers of a cell
    check,       ///< run it once with test data
    time,        ///< run it `calls` times in a row
    time_alone,  ///< run it `calls` times, each begun by all ranks together: see AloneCalls
    list,        ///< run it `calls` times in a row and take the time of each
    release,     ///< free the buffers
  };
  Kind kind{};
  std::uint32_t collective = 0;
  MessagePattern messages{};    ///< in the place of the collective
  std::uint32_t window = 1;     ///< of the messages
  std::uint32_t in_place = 0;   ///< input and output are one buffer
  std::uint32_t allocated = 0;  ///< to prepare with buffers that the library allocates, if it can
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;  ///< of the largest buffer: compared_cell_of(); or of a message
  /// For an all-reduce, N > 0: prepare parts_of_all_reduce[N - 1] as well, or time this pair in
  /// place of it, in the same buffers.
  std::uint64_t parts = 0;
  /// To prepare without letting the library finish its trials.
  std::uint64_t unsettled = 0;
  /// To time calls that are alone: the nanoseconds that one in a row takes, and those within which
  /// ranks begin one.
  std::uint64_t call_nanoseconds = 0, skew_nanoseconds = 0;
  /// To prepare so many calls by the start_ form, all under way at once; 0: one blocking call.
  std::uint64_t started = 0;
};

struct Answer {
  double seconds = 0;
  double waited = 0;  ///< share of its time in which the rank waited for its core
  std::uint64_t wrong = 0;
  std::uint64_t failed = 0;
  char text[232]{};  ///< why it failed, or Library::explanation() after the last call
};

/// Seconds of calls one after the other. Of several ranks the greatest of each.
struct CallTimes {
  std::array<double, 100> first{};
  double total = 0, p50 = 0, p99 = 0, p999 = 0, largest = 0;  ///< of all calls
};

inline void write(Answer& answer, std::string_view text) {
  answer.text[text.copy(answer.text, sizeof answer.text - 1)] = '\0';
}

inline constexpr const char* binding_key = "binding";
inline constexpr const char *binds = "own cores", *binds_not = "none";

inline std::string machine_key(int rank) {
  return fmt::format("machine/{}", rank);
}
inline std::string order_key(std::uint64_t number) {
  return fmt::format("order/{}", number);
}
inline std::string answer_key(std::uint64_t number, int rank) {
  return fmt::format("answer/{}/{}", number, rank);
}

inline std::string begin_key(std::uint64_t number) {
  return fmt::format("begin/{}", number);
}
inline std::string calls_key(std::uint64_t number, int rank) {
  return fmt::format("calls/{}/{}", number, rank);
}

template <class Message>
std::span<const std::byte> encode(const Message& message) {
  static_assert(std::has_unique_object_representations_v<Message> ||
                std::is_same_v<Message, Answer> ||
                std::is_same_v<Message, CallTimes>);  // no bytes between the members
  return std::as_bytes(std::span{&message, 1});
}

/// Whether the other side can have meant it.
inline bool is_plausible(const Order& order) {
  return order.kind <= Order::Kind::release && order.collective < all_collectives().size() &&
         order.messages <= MessagePattern::bidirectional && order.window >= 1 &&
         order.window <= most_in_window && order.parts <= std::size(parts_of_all_reduce) &&
         order.started <= most_started;
}
inline bool is_plausible(const Answer& answer) {
  return answer.seconds >= 0 && answer.seconds < 1e9 && answer.waited >= 0 &&
         answer.waited <= 1;  // nor is one a NaN
}

/// Throws BootstrapError for bytes that are no such message.
template <class Message>
Message decode(std::span<const std::byte> bytes) {
  Message message;
  if (bytes.size() != sizeof message)
    throw BootstrapError(fmt::format(
        "a message of {} bytes where {} were expected: coordinator and workers are not of "
        "one build; use the same on all hosts",
        bytes.size(), sizeof message));
  std::memcpy(&message, bytes.data(), sizeof message);
  if constexpr (requires { is_plausible(message); })
    if (!is_plausible(message))
      throw BootstrapError(
          "a message whose values cannot be: coordinator and workers are not of "
          "one build; use the same on all hosts");
  if constexpr (std::is_same_v<Message, Answer>) message.text[sizeof message.text - 1] = '\0';
  return message;
}

}  // namespace capstan::perf::worker_protocol
