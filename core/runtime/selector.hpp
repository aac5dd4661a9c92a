#pragma once

#include <string>

#include "core/runtime/algorithm_rules.hpp"
#include "core/runtime/call.hpp"
#include "core/runtime/plan.hpp"

namespace capstan {

/// What the links of one host cost, in nanoseconds; the defaults are measured between cores that
/// share a cache.
struct LinkModel {
  double flag_step = 260;            ///< a message with a separate flag, from store to use
  double packet_step = 90;           ///< a message whose flag travels in its line
  double flag_byte = 0.09;           ///< moving one byte to or from a board
  double packet_byte = 0.3;          ///< the same in packets
  bool reads_peers = false;          ///< inputs of peers can be read in place
  double read_call = 1500;           ///< beginning to read the buffer of one peer
  double read_byte = 0.055;          ///< one byte of it
  double read_byte_uncached = 0.15;  ///< of buffers longer than `read_until`
  Bytes read_until{16 << 20};
};

/// Chooses how a call runs: the rule that the user gave, or else the candidate of least predicted
/// time. A pure function of its arguments, so that all ranks choose alike. When `commutative` is
/// false, only algorithms that keep the order of ranks are candidates.
Choice choose(const Call& call, int ranks, const AlgorithmRules& rules, bool commutative = true,
              const LinkModel& model = {});

/// Predicted time of a call over shared memory, in nanoseconds.
double predict(const Algorithm& algorithm, Form form, int ranks, const Call& call,
               const LinkModel& model = {});

}  // namespace capstan
