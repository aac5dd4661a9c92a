// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "capstan/export.hpp"
#include "capstan/group.hpp"
#include "capstan/span.hpp"

namespace CAPSTAN_EXPORT capstan {

/// The verb of a step. `reduce` reads any number of sources at once, so that several arrivals are
/// combined in one pass and the order of rounding is part of the schedule; `copy` is a reduce of
/// one source, kept apart because it never changes a value.
///
///   copy     destination = source                        local
///   reduce   destination = source 0 ⊕ source 1 ⊕ ...     local, in this order; the destination may
///                                                        be one of the sources
///   put      peer's destination = source                 the source is read when the step runs;
///                                                        the data land at some time before the
///                                                        peer has seen the next signal to it
///   signal   tell the peer                               never blocks; signals to one peer arrive
///                                                        in order
///   wait     block until the peer's next signal is here  the k-th wait for a peer consumes the
///                                                        k-th signal from it
enum class Verb : std::uint8_t { copy, reduce, put, signal, wait };

std::string_view name_of(Verb verb);

/// One step of one rank.
struct Step {
  Verb verb;
  bool completes = false;  ///< reduce only: its results are final (`average` divides here)
  std::uint8_t phase = 0;  ///< see ScheduleBuilder::next_phase
  std::uint32_t first_source = 0;
  std::uint32_t source_count = 0;
  Rank peer{};         ///< put, signal, wait
  Span destination{};  ///< copy, reduce, put (there it is the peer's)

  bool operator==(const Step&) const = default;
};

/// The lengths of a rank's buffers in one call, in elements.
struct Extents {
  Elements input;
  Elements output;
  Elements scratch;

  Elements of(Buffer buffer) const;
  bool operator==(const Extents&) const = default;
};

/// The steps of one rank in one collective call. The same object is verified, lowered and run,
/// simulated, explained and named in error reports. Immutable; made by ScheduleBuilder only.
class Schedule {
 public:
  Rank self() const { return self_; }
  const Extents& extents() const { return extents_; }
  std::span<const Step> steps() const { return steps_; }
  std::span<const Span> sources(const Step& step) const {
    return std::span{sources_}.subspan(step.first_source, step.source_count);
  }
  /// The number of phases, the same on every rank.
  int phases() const { return phases_; }

  bool operator==(const Schedule&) const = default;

 private:
  friend class ScheduleBuilder;
  Schedule(Rank self, Extents extents) : self_(self), extents_(extents) {}

  Rank self_;
  Extents extents_;
  std::vector<Step> steps_;
  std::vector<Span> sources_;
  int phases_ = 1;
};

/// One step as text, e.g. "put output[0,4) -> rank 2 scratch[8,12)".
std::string to_string(const Schedule& schedule, const Step& step);

/// Records the steps of one rank. Every call checks that operands lie inside their buffers and
/// that lengths agree, and throws InvalidArgument if not; steps on empty spans are left out.
/// Remote destinations are checked against this rank's own extents (and the largest output of any
/// rank): every rank allocates the same scratch in the same order, which the verifier confirms, as
/// it confirms that each access lies inside the buffer of the rank that is accessed.
class ScheduleBuilder {
 public:
  ScheduleBuilder(const Group& group, Elements input, Elements output)
      : ScheduleBuilder(group, input, output, output) {}
  /// For collectives whose outputs differ in length from rank to rank.
  ScheduleBuilder(const Group& group, Elements input, Elements output, Elements largest_output);

  Span input() const { return {Buffer::input, Elements{0}, extents_.input}; }
  Span input(Range range) const { return input().part(range); }
  Span output() const { return {Buffer::output, Elements{0}, extents_.output}; }
  Span output(Range range) const { return output().part(range); }
  /// Allocates scratch. Allocations of a schedule do not overlap.
  Span scratch(Elements length);

  void copy(Span destination, Span source);
  /// destination = destination ⊕ source.
  void reduce(Span destination, Span source);
  /// destination = source 0 ⊕ source 1 ⊕ ..., each source read once.
  void reduce(Span destination, std::span<const Span> sources);
  /// A reduce that makes the destination's elements final: every contribution is in.
  void complete(Span destination, Span source);
  void complete(Span destination, std::span<const Span> sources);
  void put(Rank peer, Span remote_destination, Span source);
  void signal(Rank peer);
  void wait(Rank peer);

  /// put + signal.
  void send(Rank peer, Span remote_destination, Span source);

  /// Steps from here on belong to the next phase. When a long operation is cut into a stream of
  /// blocks, phase k of one block runs before phase k+1 of the block before it, so that a block's
  /// first phase overlaps the waits of its predecessor.
  void next_phase();

  Schedule build() &&;

 private:
  void record(Verb verb, Rank peer, Span destination, std::span<const Span> sources);
  void check(Span span, Elements extent, const char* role) const;
  void check_peer(Rank peer) const;

  Schedule schedule_;
  Extents extents_;
  Elements largest_output_;
  std::uint8_t phase_ = 0;
};

}  // namespace CAPSTAN_EXPORT capstan
