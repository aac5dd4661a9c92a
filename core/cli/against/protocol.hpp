#pragma once

#include <cstdint>

namespace capstan::cli {

/// What the referee of a comparison and the players' ranks say to each other: one structure per
/// packet of a Unix socket. Both are of one build.
namespace against {

/// Where the referee listens: an abstract Unix address.
inline constexpr const char* socket_variable = "CAPSTAN_REFEREE";
/// Which of the players a process belongs to.
inline constexpr const char* player_variable = "CAPSTAN_PLAYER";
/// A file that the ranks of the player `bound` map to reach each other.
inline constexpr const char* memory_variable = "CAPSTAN_REFEREE_MEMORY";

/// A rank's first words.
struct Hello {
  std::int32_t player, rank;
};

struct Order {
  enum class Kind : std::uint32_t {
    begin,    ///< bind to `processors` and start the library
    prepare,  ///< allocate the buffers of a cell
    check,    ///< run it once with test data
    time,     ///< run it `calls` times
    release,  ///< free the buffers
  };
  Kind kind{};
  std::uint32_t collective = 0;
  std::uint32_t calls = 0;
  std::uint64_t count = 0;  ///< Shape::count
  char processors[104]{};   ///< as to_string(CpuSet) writes them; empty: not bound
};

struct Answer {
  double seconds = 0;
  std::uint64_t wrong = 0;
  std::uint32_t failed = 0;
  char text[244]{};  ///< why
};

}  // namespace against
}  // namespace capstan::cli
