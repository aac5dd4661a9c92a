// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/lowering/exports.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

namespace capstan {
namespace {

Elements round_up(Elements length) {
  const auto unit = staging_unit.value();
  return Elements{(length.value() + unit - 1) / unit * unit};
}

/// The steps of a schedule that write the output, each with the part that it writes.
using OutputWrites = std::vector<std::pair<const Step*, Span>>;

OutputWrites output_writes(const Schedule& schedule) {
  OutputWrites writes;
  for (const Step& step : schedule.steps())
    if ((step.verb == Verb::copy || step.verb == Verb::reduce) &&
        step.destination.buffer == Buffer::output)
      writes.emplace_back(&step, step.destination);
  return writes;
}

/// The buffer in which peers can read the source of `put`, as no later step changes it there.
std::optional<Place> read_in_place(const Span& source, const Step& put, const OutputWrites& writes,
                                   Protocol protocol) {
  if (!reads_buffers(protocol)) return std::nullopt;
  if (source.buffer == Buffer::input) return Place::peer_input;
  if (source.buffer != Buffer::output || !reaches_outputs(protocol)) return std::nullopt;
  const bool changes = std::ranges::any_of(writes, [&](const auto& write) {
    return write.first > &put && overlap(write.second, source);
  });
  return changes ? std::nullopt : std::optional{Place::peer_output};
}

/// So that a receiver finds what concerns it without reading all steps of all senders.
std::vector<Outgoing> outgoing(const Schedule& schedule) {
  std::vector<Outgoing> all;
  std::uint32_t number = 0, puts = 0;
  for (const Step& step : schedule.steps()) {
    if (step.verb == Verb::put || step.verb == Verb::signal)
      all.push_back({step.peer, number, puts});
    puts += step.verb == Verb::put ? 1 : 0;
    ++number;
  }
  std::ranges::stable_sort(all, {}, &Outgoing::peer);
  return all;
}

}  // namespace

bool overlap(const Span& a, const Span& b) {
  if (a.buffer != b.buffer) return a.buffer != Buffer::scratch && b.buffer != Buffer::scratch;
  return a.offset < b.end() && b.offset < a.end();
}

Exports exports_of(const Schedule& schedule, Protocol protocol) {
  struct Live {
    Span source;
    Export area;
  };
  const auto key = [](const Live& l) {
    return std::tuple{l.source.buffer, l.source.offset, l.source.length};
  };
  std::vector<Live> live;  // areas that still hold the same bytes as their source, by these
  const OutputWrites writes = output_writes(schedule);
  Exports exports;
  exports.outgoing = outgoing(schedule);
  for (const Step& step : schedule.steps()) {
    if (step.verb == Verb::copy || step.verb == Verb::reduce)
      std::erase_if(live, [&](const Live& l) { return overlap(l.source, step.destination); });
    if (step.verb == Verb::wait) live.clear();  // a wait may bring new bytes into any buffer
    if (step.verb != Verb::put) continue;

    const Span source = schedule.sources(step).front();
    if (protocol == Protocol::write_output && step.destination.buffer == Buffer::output) {
      exports.puts.push_back({.region = 0, .staging = {}, .fresh = false, .delivered = true});
      continue;
    }
    if (const auto place = read_in_place(source, step, writes, protocol)) {
      exports.puts.push_back({0, source.offset, false, *place});
      continue;
    }
    const auto same = std::ranges::lower_bound(live, key({source, {}}), {}, key);
    if (protocol != Protocol::inline_packets && same != live.end() && same->source == source) {
      exports.puts.push_back(same->area);
      exports.puts.back().fresh = false;
      continue;
    }
    const auto region = static_cast<std::uint8_t>(step.phase > 0);
    exports.puts.push_back({region, exports.staging[region], true});
    live.insert(same, {source, exports.puts.back()});
    exports.staging[region] += round_up(source.length);
  }
  return exports;
}

Elements staging_extent(const Schedule& schedule, Protocol protocol) {
  return std::ranges::max(exports_of(schedule, protocol).staging);
}

}  // namespace capstan
