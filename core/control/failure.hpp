#pragma once

#include <exception>
#include <optional>
#include <string>

#include "capstan/quantity.hpp"
#include "core/control/segment.hpp"

namespace capstan {

/// Why a communicator cannot go on, in a form that can be handed to other ranks.
struct Failure {
  enum class Kind : std::uint32_t { none, peer_lost, timed_out, mismatch, aborted };

  Kind kind = Kind::none;
  Rank culprit;  ///< peer_lost: who
  std::string text;

  /// Throws the exception type of this kind.
  [[noreturn]] void raise() const;

  /// The failure that an exception stands for.
  static Failure of(const std::exception& error);
};

/// Publishes a failure in the own segment; the first one stays.
void publish(AbortRecord& record, const Failure& failure);

/// A peer's failure, if it has one.
std::optional<Failure> read(const AbortRecord& record);

}  // namespace capstan
