#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include "capstan/quantity.hpp"

namespace capstan {

/// Base of every error that Capstan reports. `what()` says what happened, on which rank, in which
/// call, and what to do about it.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The caller passed something that cannot work: sizes, names, settings, environment.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

/// The operating system, the network or a device refused something that is needed.
class SystemError : public Error {
 public:
  using Error::Error;
};

/// Memory cannot be allocated, pinned or registered because a limit is reached: the caller's or the
/// system's.
class LimitReached : public Error {
 public:
  using Error::Error;
};

/// Ranks could not find or would not trust each other: a rank never joined, the secret was wrong.
class BootstrapError : public Error {
 public:
  using Error::Error;
};

/// A peer is gone: its process died or it left the communicator while others still needed it.
class PeerLost : public Error {
 public:
  PeerLost(Rank lost, const std::string& message) : Error(message), lost_(lost) {}
  Rank lost() const { return lost_; }

 private:
  Rank lost_;
};

/// A deadline passed while waiting for a peer that is still alive.
class TimedOut : public Error {
 public:
  using Error::Error;
};

/// Ranks called different things (other collective, count, type, operation or algorithm).
class Mismatch : public Error {
 public:
  using Error::Error;
};

/// A message is longer than the buffer that was to receive it. The message is lost; later messages
/// are not.
class Truncated : public Error {
 public:
  using Error::Error;
};

/// This rank or a peer aborted the communicator.
class Aborted : public Error {
 public:
  using Error::Error;
};

/// The operation was cancelled, by a call of cancel() or by a stop token.
class Cancelled : public Error {
 public:
  using Error::Error;
};

/// The deadline that a caller gave for an operation passed; the operation has been cancelled.
class DeadlineExceeded : public Error {
 public:
  using Error::Error;
};

/// An operation failed for another reason, which is kept as its cause.
class OperationFailed : public Error {
 public:
  OperationFailed(const std::string& message, std::exception_ptr cause)
      : Error(message), cause_(std::move(cause)) {}
  const std::exception_ptr& cause() const { return cause_; }

 private:
  std::exception_ptr cause_;
};

}  // namespace capstan
