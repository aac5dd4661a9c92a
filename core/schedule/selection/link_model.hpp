// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "capstan/memory_kind.hpp"
#include "capstan/quantity.hpp"

namespace capstan {

/// The shortest buffer that the kernel copies faster when its pages are huge.
inline constexpr Bytes worth_huge_pages{128 << 10};

/// The cost of each step of a program for a rank, in nanoseconds; per byte where the name says so.
/// Between hosts this is the LogGP model: o_send and o_recv are the overheads of a message on
/// either side, `latency` is that of the network, and send_byte is the gap per byte.
///
/// The defaults were fitted by hand to measurements on 2 and 4 cores of one machine (`capstan perf`
/// with `--algorithm NAME/PROTOCOL`). Those between hosts were fitted to TCP between two network
/// namespaces of that machine (`choice_bench`): there the kernel of the sender does most of the
/// work, and the wire has hardly any latency of its own.
struct LinkModel {
  /// The farthest link between the devices whose memory calls lie in; none: memory of the host. See
  /// device_links() for the constants.
  std::optional<DeviceLink> devices{};

  // Within a host, or in kernels of devices.
  double call = 60;                   ///< any call: finding its plan, publishing it
  double signal = 40;                 ///< raising a flag
  double flag = 250;                  ///< from a raised flag to the end of its wait
  double time_slice = 3000;           ///< where ranks share cores: until an awaited rank has one
  double miss = 70;                   ///< the first line of a peer's memory
  double local_byte = 0.02;           ///< reading or writing the own cache
  double reduce_byte = 0.008;         ///< adding up, on top of reading
  double staging_write_byte = 0.045;  ///< the own staging buffer, which is in its readers' caches
  double staging_read_byte = 0.06;    ///< a peer's staging buffer, which it has just written
  double next_staging_byte = 0.005;   ///< each further staging buffer read at the same time
  double first_staging_byte = 0.1;    ///< on top, for the first 4 KiB that are read or written
  double contention =
      0.7;  ///< of staging buffers: the share by which each other reader lengthens a read
  double buffer_contention = 1;  ///< the same for a peer's buffer, in pages of 4 KiB
  double huge_contention = 0.1;  ///< the same for a peer's buffer, in pages of 2 MiB
  double packet_write = 8;
  double packet = 140;        ///< from writing a packet to having read it
  double next_packet = 48;    ///< each further packet of the same sender
  double next_source = 20;    ///< the packet of a further sender
  double polled_packet = 30;  ///< on top, for each peer that has read the same packet before

  // Buffers of peers on the same host.
  bool reads_peers = false;   ///< whether peers' buffers can be read in place
  double cores = 1;           ///< of a host, for all its ranks; counts where ranks share cores
  bool shares_cores = false;  ///< ranks do: they read mapped buffers only, unless asked for, or ...
  Bytes long_call{1 << 20};   ///< ... the call is this long, and buffers are in huge pages
  bool huge_pages = false;    ///< buffers from worth_huge_pages on come to be in pages of 2 MiB
  double read_call = 900;     ///< one read of a peer's buffer
  double read_piece = 900;    ///< one read of a piece that is reduced then
  double read_piece_byte = 0.02;  ///< on top, as such a piece is read again from the own cache
  double read_byte = 0.036;       ///< of a buffer that has not changed for a while
  double read_fresh_byte = 0.13;  ///< of a buffer that the peer has just written
  /// By which share of its time each other copy of the kernel on the host lengthens one.
  double copy_contention = 0.02;
  double write_call = 900;  ///< one write to a peer's buffer
  double write_byte = 0.034;
  double load = 150;                ///< a peer's mapped buffer: finding it, its first lines
  Bytes cache{8 << 20};             ///< the last one, as far as a rank has it for its buffers
  double cache_share = 0.25;        ///< buffers that exceed this share of it are in DRAM
  double dram_read_factor = 1.8;    ///< reads of peers' buffers in DRAM take so many times as long
  double dram_write_factor = 4;     ///< the same for writes to peers' buffers
  double dram_load_factor = 1.25;   ///< the same for loads and stores in mapped buffers
  double dram_local_factor = 1;     ///< the same for the own buffers
  Bytes host_cache{96 << 20};       ///< where the buffers of all ranks exceed it ...
  double page_lookup_factor = 2.5;  ///< ... the kernel takes so many times as long to find pages

  /// Whether buffers of this length, input and output of a rank, are in DRAM. Peers read and write
  /// the same cache, and what they leave there counts as well: hence a share of it.
  bool exceed_cache(Bytes buffers) const {
    return static_cast<double>(buffers.value()) > cache_share * static_cast<double>(cache.value());
  }

  // Between hosts.
  double o_send = 2900;            ///< sending a message of any length
  double o_recv = 1000;            ///< receiving a message of any length
  double send_byte = 0.082;        ///< sent, or received
  double first_send_byte = 0.36;   ///< on top, for the first 2 KiB of a message, on either side
  double latency = 600;            ///< from having sent a message to its being there
  double phase_contention = 0.02;  ///< blocks whose phases overlap compete for the cache
};

}  // namespace capstan
