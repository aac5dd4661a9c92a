// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "capstan/error_code.hpp"
#include "capstan/export.hpp"
#include "capstan/quantity.hpp"

namespace CAPSTAN_EXPORT capstan {

/// Base of every error that Capstan reports. `what()` says what happened, on which rank, in which
/// call, and what to do about it. It is safe to print, whoever the words in it are of: control
/// characters, and bytes that are no UTF-8, are escaped.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, ErrorCode code = ErrorCode::internal);

  /// The kind of error as a number that never changes.
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

/// The caller passed something that cannot work: sizes, names, settings, environment.
class InvalidArgument : public Error {
 public:
  explicit InvalidArgument(const std::string& message, ErrorCode code = ErrorCode::invalid_argument)
      : Error(message, code) {}
};

/// The operating system, the network or a device refused something that is needed.
class SystemError : public Error {
 public:
  explicit SystemError(const std::string& message) : Error(message, ErrorCode::system_error) {}
};

/// Memory cannot be allocated, pinned or registered because a limit is reached: the caller's or the
/// system's.
class LimitReached : public Error {
 public:
  explicit LimitReached(const std::string& message) : Error(message, ErrorCode::limit_reached) {}
};

/// Ranks could not find or would not trust each other: a rank never joined, the secret was wrong.
class BootstrapError : public Error {
 public:
  explicit BootstrapError(const std::string& message, ErrorCode code = ErrorCode::bootstrap_failed)
      : Error(message, code) {}
};

/// A rank for which others have waited in vain.
struct Culprit {
  enum class State : std::uint8_t {
    absent,   ///< it has not come to the call or message that others wait for
    stopped,  ///< its process is stopped: by SIGSTOP, by a debugger
    silent,   ///< nothing comes from it: it is stopped, or its host cannot be reached
    waiting,  ///< it waits, by way of others, for itself: all of them are culprits
    left,     ///< it has destroyed its communicator
    dead      ///< its process has ended, or the connection to it
  };

  std::optional<Rank> rank{};  ///< in the communicator whose call failed, if it is a member
  Rank world_rank{};
  State state{};
  std::string host{};  ///< empty where ranks are threads of one process
  int process_id = 0;  ///< on that host; 0 where ranks are threads of one process
};

/// Ranks have not done what others waited for.
class PeerError : public Error {
 public:
  PeerError(const std::string& message, ErrorCode code, std::vector<Culprit> culprits)
      : Error(message, code), culprits_(std::move(culprits)) {}
  /// The ranks that keep the others waiting, in rising order of the rank in the world. A rank that
  /// waits for another one itself is not among them: the last of the chain is. Empty if the library
  /// cannot tell.
  const std::vector<Culprit>& culprits() const { return culprits_; }

 private:
  std::vector<Culprit> culprits_;
};

/// A peer is gone: its process died or it left the communicator while others still needed it.
class PeerLost : public PeerError {
 public:
  PeerLost(Rank lost, const std::string& message, std::vector<Culprit> culprits = {})
      : PeerError(message, ErrorCode::peer_lost, std::move(culprits)), lost_(lost) {}
  /// The first of those that are gone, as a rank of the communicator.
  Rank lost() const { return lost_; }

 private:
  Rank lost_;
};

/// A deadline passed while waiting for a peer that is still alive.
class TimedOut : public PeerError {
 public:
  explicit TimedOut(const std::string& message, std::vector<Culprit> culprits = {})
      : PeerError(message, ErrorCode::timed_out, std::move(culprits)) {}
};

/// Ranks called different things (other collective, count, type, operation or algorithm).
class Mismatch : public Error {
 public:
  explicit Mismatch(const std::string& message) : Error(message, ErrorCode::mismatch) {}
};

/// A message is longer than the buffer that was to receive it. The message is lost; later messages
/// are not.
class Truncated : public Error {
 public:
  explicit Truncated(const std::string& message) : Error(message, ErrorCode::truncated) {}
};

/// This rank or a peer aborted the communicator.
class Aborted : public Error {
 public:
  explicit Aborted(const std::string& message) : Error(message, ErrorCode::aborted) {}
};

/// The operation was cancelled, by a call of cancel() or by a stop token.
class Cancelled : public Error {
 public:
  explicit Cancelled(const std::string& message) : Error(message, ErrorCode::cancelled) {}
};

/// The time limit that a caller gave for operations passed. What was pending has been cancelled,
/// unless the function that throws this says that it continues.
class DeadlineExceeded : public Error {
 public:
  explicit DeadlineExceeded(const std::string& message, std::chrono::nanoseconds budget = {},
                            const std::vector<std::string>& pending = {});

  /// The time limit.
  std::chrono::nanoseconds budget() const { return budget_; }
  /// The operations that had not ended: "all_reduce(1000 x f32, sum)".
  const std::vector<std::string>& pending() const { return pending_; }

 private:
  std::chrono::nanoseconds budget_;
  std::vector<std::string> pending_;
};

/// An operation failed for another reason, which is kept as its cause.
class OperationFailed : public Error {
 public:
  OperationFailed(const std::string& message, std::exception_ptr cause)
      : Error(message, ErrorCode::operation_failed), cause_(std::move(cause)) {}
  const std::exception_ptr& cause() const { return cause_; }

 private:
  std::exception_ptr cause_;
};

}  // namespace CAPSTAN_EXPORT capstan
