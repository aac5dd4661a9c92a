// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/bootstrap/store/store.hpp"
#include "perf/measure/cell.hpp"
#include "perf/measure/message_patterns.hpp"

namespace capstan::perf {

/// One library in `capstan perf --against`. Binding, warm-up and the clock are the same code for
/// all libraries (worker.cpp), and so are the buffers unless a library is asked for its own.
class Library {
 public:
  virtual ~Library() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Prepares one collective of f32 sums (root 0) with these buffers and returns a function that
  /// runs it. A broadcast has one buffer, `output`, and so have all calls in place. Empty if the
  /// library lacks this collective.
  using Call = std::function<void()>;
  virtual Call prepare(const Cell& cell, float* input, float* output) = 0;
  /// The same with messages between two ranks. Empty if the library lacks them here.
  virtual Call prepare_messages(const MessageRun&) { return {}; }
  /// The same by calls that do not block: one for each pair of buffers, all under way at once, and
  /// then a wait for all. Empty if the library has no such calls.
  struct Buffers {
    float *input, *output;
  };
  virtual Call prepare_started(const Cell&, const std::vector<Buffers>&) { return {}; }
  virtual void barrier() = 0;
  /// Memory for so many floats, all of one value; by the library itself if `own` and it can.
  virtual std::shared_ptr<float> allocate(std::size_t count, float value, bool own);
  /// Runs the call prepared last until the library has decided how to run it. All ranks call it.
  virtual void settle() {}
  /// The library's explanation of how it runs the call prepared last; empty if it has none.
  virtual std::string explanation() const { return {}; }
  /// Whether it computes results that can be checked. The bounds only move bytes.
  virtual bool computes() const { return true; }
};

/// Starts a library and joins its world. Ranks may exchange values through the store, under keys
/// that start with the library's name.
using Start = std::function<std::unique_ptr<Library>(Store&)>;

/// The main program of a worker: binds this process to a core, if the coordinator says so, starts
/// the library, and obeys the coordinator until it closes the connection. Ranks on one machine get
/// different cores, also when they are in different network namespaces or containers. Returns the
/// exit status.
int run_worker(const Start& start);

}  // namespace capstan::perf
