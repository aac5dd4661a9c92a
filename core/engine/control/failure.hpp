// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "capstan/error.hpp"
#include "capstan/quantity.hpp"
#include "core/engine/control/segment.hpp"

namespace capstan {

/// Why a communicator cannot continue, in a form that other ranks can adopt.
struct Failure {
  enum class Kind : std::uint32_t { none, peer_lost, timed_out, mismatch, aborted };

  Kind kind = Kind::none;
  Rank lost;  ///< peer_lost: the rank that is gone
  std::string text;
  std::vector<Culprit> culprits{};  ///< peer_lost, timed_out

  /// Throws the exception type of this kind.
  [[noreturn]] void raise() const;
  /// The exception that raise() throws.
  std::exception_ptr exception() const;

  /// The failure that an exception describes.
  static Failure of(const std::exception& error);
};

/// Publishes a failure in the segment of this rank. Does nothing after the first.
void publish(AbortRecord& record, const Failure& failure);

/// The failure that a peer among `ranks` has published, if any. Its culprits have a state and a
/// rank in the world only, which are not checked.
std::optional<Failure> read(const AbortRecord& record, int ranks);

}  // namespace capstan
