#pragma once

#include <vector>

#include "capstan/hosts.hpp"
#include "core/lowering/call.hpp"
#include "core/lowering/program.hpp"

namespace capstan {

/// The shortest buffer that the kernel copies faster when its pages are huge.
inline constexpr Bytes worth_huge_pages{128 << 10};

/// What a rank needs for its share of a program, in nanoseconds. The defaults were fitted by hand
/// to measurements on 2 and 4 cores of one machine (`capstan perf` with `--algorithm NAME/FORM`),
/// those between hosts to TCP between two network namespaces of it (`choice_bench`): there the
/// kernel of the sender does most of the work, and the wire has hardly any latency of its own.
struct LinkModel {
  double call = 60;            ///< any call: looking its plan up, publishing it
  double signal = 40;          ///< raising a flag
  double flag = 250;           ///< from a raised flag to the end of its wait
  double turn = 3000;          ///< where ranks share cores: until one that is awaited has one
  double miss = 70;            ///< the first line of a peer's memory
  double local_byte = 0.02;    ///< reading or writing the own cache
  double reduce_byte = 0.008;  ///< adding up, on top of reading
  double staging_write =
      0.045;  ///< a byte of the rank's own staging buffer, whose readers have a copy of it
  double staging_read = 0.06;  ///< a byte of a peer's staging buffer, which it has just written
  double next_staging =
      0.005;  ///< the same of each further staging buffer that is read at the same time
  double first_bytes =
      0.1;  ///< each of the first 4 KiB of a staging buffer, read or written, costs more
  double hindrance =
      0.7;  ///< staging buffers: by so much more for each other reader at the same time
  double buffer_hindrance = 1;  ///< the same of a peer's buffer, in pages of 4 KiB
  double huge_hindrance = 0.1;  ///< the same in pages of 2 MiB
  double packet_write = 8;
  double packet = 140;         ///< from writing a packet to having read it
  double next_packet = 48;     ///< each further packet of the same sender
  double next_source = 20;     ///< the packet of a further sender
  double polled_packet = 30;   ///< a packet that others read, too: for each that did so before
  bool reads_peers = false;    ///< buffers of peers can be read in place
  bool shares_cores = false;   ///< then only those that are seen, unless asked for, or ...
  Bytes long_call{1 << 20};    ///< ... if they are as long and in huge pages
  bool huge_pages = false;     ///< long buffers come to be in pages of 2 MiB
  double read_call = 900;      ///< one read of a peer's buffer
  double read_piece = 900;     ///< the same, of a piece that is to be reduced
  double read_byte = 0.036;    ///< a byte of it, if it has not changed for a while
  double read_fresh = 0.13;    ///< if the peer has just written it
  double write_call = 900;     ///< one write to a peer's buffer
  double write_byte = 0.034;   ///< a byte of it
  double load = 150;           ///< a peer's buffer that is seen here: finding it, its first lines
  Bytes cache{2 << 20};        ///< of a rank: where its buffers exceed it ...
  double far_read = 1.8;       ///< ... peers' buffers are so many times slower to read,
  double far_write = 4;        ///< ... and to write,
  double far_load = 1.25;      ///< ... and where they are seen to do either
  Bytes host_cache{96 << 20};  ///< where the buffers of all ranks exceed this ...
  double pages = 2.5;          ///< ... the kernel takes so many times as long to find their pages
  double post = 2900;          ///< sending a message to another host, whatever its length
  double take = 1000;          ///< taking in a message from another host, whatever its length
  double post_byte = 0.082;    ///< a byte sent to another host, or taken in from there
  double post_first = 0.36;    ///< each of the first 2 KiB of a message costs more, on either side
  double overlap = 0.02;  ///< between hosts: blocks whose phases overlap crowd each other's cache
  double post_latency = 600;  ///< from having sent a message to its being there
};

/// What programs do not tell about a call.
struct SimulatedCall {
  Bytes element{};
  bool synchronizes = true;         ///< see Guarantees
  bool in_place = false;            ///< copies of inputs to outputs change nothing
  Bytes of_rank{};                  ///< input and output, of the rank that has most
  Bytes of_all{};                   ///< the same of all ranks
  Bytes shortest{};                 ///< of all buffers
  PeerMappedBuffers peer_mapped{};  ///< buffers that peers load from instead of reading them
};

/// Predicted time of one call among calls that follow one another, of which `programs` are the
/// programs of all ranks for one block.
double simulate(const std::vector<Program>& programs, const Hosts& hosts, const SimulatedCall& call,
                const LinkModel& model);

}  // namespace capstan
