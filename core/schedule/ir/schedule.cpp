// SPDX-License-Identifier: Apache-2.0
#include "capstan/schedule.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "capstan/error.hpp"

namespace capstan {

namespace {

constexpr int most_phases = 256;  // Step::phase counts no further

constexpr std::array<std::string_view, 3> buffer_names{"input", "output", "scratch"};
constexpr std::array<std::string_view, 5> verb_names{"copy", "reduce", "put", "signal", "wait"};

std::string to_string(const Span& span) {
  return std::string{name_of(span.buffer)} + "[" + std::to_string(span.offset.value()) + "," +
         std::to_string(span.end().value()) + ")";
}

/// `schedule`: without the step that is wrong, which would be its next one.
[[noreturn]] void refuse(const Schedule& schedule, const std::string& what) {
  throw InvalidArgument("rank " + std::to_string(schedule.self().value()) + ", step " +
                        std::to_string(schedule.steps().size()) + ": " + what);
}

}  // namespace

std::string_view name_of(Buffer buffer) {
  return buffer_names[static_cast<std::size_t>(buffer)];
}
std::string_view name_of(Verb verb) {
  return verb_names[static_cast<std::size_t>(verb)];
}

Elements Extents::of(Buffer buffer) const {
  switch (buffer) {
    case Buffer::input:
      return input;
    case Buffer::output:
      return output;
    case Buffer::scratch:
      return scratch;
  }
  return Elements{0};
}

std::string to_string(const Schedule& schedule, const Step& step) {
  std::string text{name_of(step.verb)};
  const char* separator = " ";
  for (const Span& source : schedule.sources(step)) {
    text += separator + to_string(source);
    separator = ", ";
  }
  if (step.verb == Verb::signal || step.verb == Verb::wait)
    return text + " rank " + std::to_string(step.peer.value());
  text += " -> ";
  if (step.verb == Verb::put) text += "rank " + std::to_string(step.peer.value()) + " ";
  return text + to_string(step.destination);
}

ScheduleBuilder::ScheduleBuilder(const Group& group, Elements input, Elements output,
                                 Elements largest_output)
    : schedule_(group.self(), {}),
      extents_{input, output, Elements{0}},
      largest_output_(largest_output) {}

Span ScheduleBuilder::scratch(Elements length) {
  const Span span{Buffer::scratch, extents_.scratch, length};
  extents_.scratch += length;
  return span;
}

void ScheduleBuilder::copy(Span destination, Span source) {
  record(Verb::copy, {}, destination, {&source, 1});
}

void ScheduleBuilder::reduce(Span destination, Span source) {
  reduce(destination, std::array{destination, source});
}

void ScheduleBuilder::reduce(Span destination, std::span<const Span> sources) {
  record(Verb::reduce, {}, destination, sources);
}

void ScheduleBuilder::complete(Span destination, Span source) {
  complete(destination, std::array{destination, source});
}

void ScheduleBuilder::complete(Span destination, std::span<const Span> sources) {
  const std::size_t before = schedule_.steps_.size();
  reduce(destination, sources);
  if (schedule_.steps_.size() > before) schedule_.steps_.back().completes = true;
}

void ScheduleBuilder::put(Rank peer, Span remote_destination, Span source) {
  check_peer(peer);
  record(Verb::put, peer, remote_destination, {&source, 1});
}

void ScheduleBuilder::signal(Rank peer) {
  check_peer(peer);
  schedule_.steps_.push_back({.verb = Verb::signal, .phase = phase_, .peer = peer});
}

void ScheduleBuilder::wait(Rank peer) {
  check_peer(peer);
  schedule_.steps_.push_back({.verb = Verb::wait, .phase = phase_, .peer = peer});
}

void ScheduleBuilder::send(Rank peer, Span remote_destination, Span source) {
  put(peer, remote_destination, source);
  signal(peer);
}

void ScheduleBuilder::next_phase() {
  if (phase_ + 1 == most_phases)
    refuse(schedule_, "a schedule has at most " + std::to_string(most_phases) +
                          " phases: call next_phase() less often");
  ++phase_;
}

Schedule ScheduleBuilder::build() && {
  schedule_.extents_ = extents_;
  schedule_.phases_ = phase_ + 1;
  return std::move(schedule_);
}

void ScheduleBuilder::record(Verb verb, Rank peer, Span destination,
                             std::span<const Span> sources) {
  const bool remote_output = verb == Verb::put && destination.buffer == Buffer::output;
  check(destination, remote_output ? largest_output_ : extents_.of(destination.buffer),
        "destination");
  if (sources.empty()) refuse(schedule_, std::string{name_of(verb)} + " has no source");
  for (const Span& source : sources) {
    check(source, extents_.of(source.buffer), "source");
    if (source.length != destination.length)
      refuse(schedule_, std::string{name_of(verb)} + " of " + to_string(source) + " into " +
                            to_string(destination) + ": the lengths differ");
  }
  if (destination.empty()) return;

  schedule_.steps_.push_back({.verb = verb,
                              .phase = phase_,
                              .first_source = static_cast<std::uint32_t>(schedule_.sources_.size()),
                              .source_count = static_cast<std::uint32_t>(sources.size()),
                              .peer = peer,
                              .destination = destination});
  schedule_.sources_.insert(schedule_.sources_.end(), sources.begin(), sources.end());
}

void ScheduleBuilder::check(Span span, Elements extent, const char* role) const {
  if (span.end() > extent || span.end() < span.offset)
    refuse(schedule_, std::string{role} + " " + to_string(span) + " exceeds the " +
                          std::string{name_of(span.buffer)} + " of " +
                          std::to_string(extent.value()) + " elements");
}

void ScheduleBuilder::check_peer(Rank peer) const {
  if (peer == schedule_.self_)
    refuse(schedule_, "it puts to, signals or waits for itself: copy instead");
}

}  // namespace capstan
