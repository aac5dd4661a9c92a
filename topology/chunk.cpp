// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "capstan/error.hpp"
#include "topology/machine.hpp"

namespace capstan {
namespace {

constexpr Bytes kib{1 << 10}, mib{1 << 20};

constexpr std::uint64_t slots = 3;  // of a staged pipeline: written, reduced, read by others
constexpr Bytes usual = kib * 256, largest = mib;

// Limits of plausible caches. Machines of 2025 have at most 3 MiB of L2 per core, and 32 MiB of L3
// if a core has it to itself. Emulators report 4 MiB of L2 each, and virtual machines of few cores
// the L3 of a whole package.
constexpr Bytes unreal_l2_per_core = mib * 4, most_l3_per_core = mib * 32;

std::string text_of(Bytes bytes) {
  if (bytes < mib) return fmt::format("{} KiB", bytes.value() >> 10);
  return fmt::format("{:.3g} MiB", static_cast<double>(bytes.value()) / (1 << 20));
}

/// The number of ranks on each processing unit. A rank that may use several units counts in part on
/// each.
std::vector<double> load_of_units(std::span<const CpuSet> bindings) {
  std::vector<double> load;
  for (const CpuSet& binding : bindings)
    for (const unsigned unit : binding) {
      if (unit >= load.size()) load.resize(unit + std::size_t{1}, 0.0);
      load[unit] += 1.0 / static_cast<double>(binding.size());
    }
  return load;
}

/// The shares that ranks have of one level of caches.
struct Level {
  Bytes per_core;        ///< the largest share of a core; 0 if no rank runs under such a cache
  Bytes per_rank;        ///< the smallest share of a rank
  Bytes per_turn;        ///< the same, if ranks that share a core divide its share, too
  Bytes smallest_cache;  ///< the size of the smallest cache that a rank uses
};

Level measure(const Machine& machine, std::span<const Cache> caches, std::span<const double> load) {
  Level level;
  const auto lower = [](Bytes& least, Bytes value) {
    least = least == Bytes{0} ? value : std::min(least, value);
  };
  for (const Cache& cache : caches) {
    double ranks = 0;
    for (const unsigned unit : cache.processing_units)
      if (unit < load.size()) ranks += load[unit];
    const int cores = machine.cores_sharing(cache);
    if (ranks == 0 || cores == 0 || cache.size == Bytes{0}) continue;
    // Ranks that share a core do not divide its share: smaller chunks would make them switch more
    // often, which costs more than the cache saves.
    const double sharing = std::clamp(ranks, 1.0, static_cast<double>(cores));
    const auto share = static_cast<double>(cache.size.value()) / sharing;
    level.per_core = std::max(level.per_core, cache.size / static_cast<std::uint64_t>(cores));
    lower(level.per_rank, Bytes{static_cast<std::uint64_t>(share)});
    const auto turn = static_cast<double>(cache.size.value()) / std::max(ranks, 1.0);
    lower(level.per_turn, Bytes{static_cast<std::uint64_t>(turn)});
    lower(level.smallest_cache, cache.size);
  }
  return level;
}

/// The largest power of two with which all slots fill at most half of `share`; 0 if there is none.
// measured: docs/lab-notebook.md#chunks
Bytes fitting(Bytes share) {
  return Bytes{std::bit_floor(share.value() / 2 / slots)};
}

/// Why L3 is ignored; empty if it is not.
std::string obstacle_to_l3(const Level& l2, const Level& l3) {
  if (l3.per_core == Bytes{0}) return "L3 is unknown";
  if (l3.per_core > most_l3_per_core)
    return fmt::format("an L3 of {} per core cannot be real", text_of(l3.per_core));
  if (l3.smallest_cache <= l2.smallest_cache)
    return fmt::format("an L3 of {} above an L2 of {} cannot be real", text_of(l3.smallest_cache),
                       text_of(l2.smallest_cache));
  return {};
}

ChunkChoice staged_in(const char* level, Bytes chunk, Bytes share, const std::string& note) {
  const Bytes bytes = std::clamp(chunk, shortest_chunk, largest);
  const std::string remark = note.empty() ? "" : fmt::format(" ({})", note);
  if (chunk < shortest_chunk)
    return {bytes, fmt::format("the least that is worth its flags; {} of {} per rank is too small "
                               "for three slots of it{}",
                               level, text_of(share), remark)};
  return {bytes, fmt::format("three slots of it fill at most half of a rank's {} of {}{}",
                             text_of(share), level, remark)};
}

/// Chooses a chunk so that the data that a rank stages for itself stay in its share of a cache.
ChunkChoice choose(const Level& l2, const Level& l3) {
  const std::string obstacle = obstacle_to_l3(l2, l3);
  if (l2.per_core == Bytes{0} && !obstacle.empty())
    return {usual, fmt::format("the usual size; L2 is unknown and {}", obstacle)};
  const Bytes from_l2 = fitting(l2.per_rank);
  const Bytes from_l3 = obstacle.empty() ? std::min(fitting(l3.per_rank), usual) : Bytes{0};
  if (from_l3 > from_l2)
    return staged_in("L3", from_l3, l3.per_rank,
                     l2.per_core == Bytes{0} ? "L2 is unknown" : "L2 is too small");
  return staged_in("L2", from_l2, l2.per_rank, obstacle);
}

/// Shortens a chunk if necessary, so that the data that all ranks stage stay in the caches.
ChunkChoice limited_by_caches(const ChunkChoice& chunk, const Level& l2, const Level& l3,
                              int ranks) {
  if (!obstacle_to_l3(l2, l3).empty()) return chunk;
  const auto chunks = static_cast<std::uint64_t>(ranks);  // in a slot
  const Bytes from_l2 = l2.per_turn / chunks, from_l3 = l3.per_turn / chunks;
  const bool larger = from_l3 > from_l2;
  const Bytes share = larger ? from_l3 : from_l2;
  const ChunkChoice limited = staged_in(larger ? "L3" : "L2", fitting(share), share,
                                        fmt::format("for each of {} ranks", ranks));
  return limited.bytes < chunk.bytes ? limited : chunk;
}

}  // namespace

ChunkChoice choose_chunk(const Machine& machine, std::span<const CpuSet> bindings) {
  if (bindings.empty() || std::ranges::any_of(bindings, &CpuSet::empty))
    throw InvalidArgument("a chunk size is for at least one rank, each bound to some processor");
  const std::vector<double> load = load_of_units(bindings);
  const Level l2 = measure(machine, machine.l2_caches(), load),
              l3 = measure(machine, machine.l3_caches(), load);
  if (l2.per_core >= unreal_l2_per_core)
    return {usual, fmt::format("the usual size; an L2 of {} per core cannot be real",
                               text_of(l2.per_core))};
  return limited_by_caches(choose(l2, l3), l2, l3, static_cast<int>(bindings.size()));
}

Bytes chunk_bytes_for(const Machine& machine, int ranks) {
  return choose_chunk(machine, place_ranks(machine, ranks)).bytes;
}

Bytes cached_buffers(const Machine& machine, int ranks) {
  // measured: docs/lab-notebook.md#huge-pages
  constexpr Bytes most = mib * 16, unknown = mib * 8;
  const std::vector<double> load = load_of_units(place_ranks(machine, ranks));
  const Level l2 = measure(machine, machine.l2_caches(), load),
              l3 = measure(machine, machine.l3_caches(), load);
  return obstacle_to_l3(l2, l3).empty() ? std::min(l3.per_rank, most) : unknown;
}

}  // namespace capstan
