#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "core/bootstrap/store/store.hpp"
#include "perf/measure/cell.hpp"

namespace capstan::perf {

/// What one library needs to take part in `capstan perf --against`: everything else, buffers,
/// binding, warm-up and the clock, is the same code for all of them (worker.cpp).
class Library {
 public:
  virtual ~Library() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Prepares one collective of f32 sums (root 0) with these buffers and returns what runs it. A
  /// broadcast has one buffer, `output`. Empty if the library has no such collective.
  using Call = std::function<void()>;
  virtual Call prepare(const Cell& cell, float* input, float* output) = 0;
  virtual void barrier() = 0;
  /// How it runs what has been prepared last, as far as it goes by now; empty if it does not tell.
  virtual std::string way() const { return {}; }
  /// Whether its results can be checked: not those of the physical limits.
  virtual bool computes() const { return true; }
};

/// What starts a library: joins its own world. The ranks may leave each other messages in the store
/// meanwhile, under keys that start with the library's name.
using Start = std::function<std::unique_ptr<Library>(Store&)>;

/// The main program of a worker: binds this process to a core, starts the library, and does what
/// the coordinator orders until it hangs up. Ranks that share a machine get cores of their own
/// there, whichever hosts (network namespaces, containers) they are on and whatever launched them.
int play(const Start& start);

}  // namespace capstan::perf
