#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "core/cli/perf/cell.hpp"

namespace capstan::peers {

/// What one library needs to take part in `capstan perf --against`: everything else, buffers,
/// binding, warm-up and the clock, is the same code for all of them (player.cpp).
class Library {
 public:
  virtual ~Library() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Prepares one collective of f32 sums (root 0) with these buffers and returns what runs it. A
  /// broadcast has one buffer, `output`. Empty if the library has no such collective.
  using Call = std::function<void()>;
  virtual Call prepare(const cli::Cell& cell, float* input, float* output) = 0;
  virtual void barrier() = 0;
  /// Whether its results can be checked: not those of the physical limits.
  virtual bool computes() const { return true; }
};

/// The main program of a player: waits for the referee's orders until it hangs up. `start` joins
/// the library's own world, after this process has been bound to its core.
int play(const std::function<std::unique_ptr<Library>()>& start);

}  // namespace capstan::peers
