// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "capstan/collective.hpp"
#include "capstan/foreign_type.hpp"
#include "capstan/memory_kind.hpp"
#include "capstan/reducer.hpp"
#include "capstan/reproducible.hpp"
#include "capstan/types.hpp"

namespace capstan {

struct Guarantees;

/// The reason why a call is made. All but `caller` are calls that ranks make among themselves.
enum class Purpose : std::uint8_t {
  caller,      ///< a program asked for it
  visibility,  ///< agreement on PeerMappedBuffers of the call that comes next
  allocate,    ///< part of Communicator::allocate
  decision,    ///< agreement on the times of measured calls: see Autotuner
  split,       ///< part of Communicator::split
  subgroup,    ///< part of Communicator::subgroup
  twin,        ///< part of Communicator::with_algorithm
  lengths      ///< agreement on the lengths of an all_to_all_v that comes next
};

/// The buffers of a call that are mapped by all peers on the host, on every rank. Buffers that are
/// not mapped are read through the kernel.
enum class PeerMappedBuffers : std::uint8_t { none, inputs, all };

/// The arguments of a call that must agree between ranks.
struct Call {
  Collective collective = Collective::all_reduce;
  DataType type = DataType::f32;
  ForeignType foreign{};
  ReduceOp op = ReduceOp::sum;
  Shape shape{};
  std::shared_ptr<const UserOperation> user{};  ///< instead of `op`
  std::vector<std::int64_t> tensor{};           ///< the shape, where tensors are exchanged
  PeerMappedBuffers peer_mapped{};              ///< as ranks have agreed before the call
  MemoryKind memory{};                          ///< of the buffers: it decides what runs the call
  Purpose purpose{};
  /// The promise of a call whose results round; none: the communicator's.
  std::optional<Reproducible> promise{};
  std::shared_ptr<const Call> about{};  ///< of an agreement: the call that it comes before

  bool operator==(const Call&) const = default;

  Contract contract(int ranks) const { return {collective, shape, ranks}; }
  Bytes element() const { return size_of(type) * (user ? user->width : 1); }
  /// The length of the largest buffer.
  Bytes extent(int ranks) const { return bytes_of(contract(ranks).extent(), element()); }
};

/// Whether the order in which elements are combined may change the result's last bits. Minimum,
/// maximum and logical operations do not depend on the order: see kernels/cpu/reduce.hpp.
bool rounds(const Call& call);
/// Whether a sum that is stored and added to later is the same as one that is added at once.
/// Numbers of 8 and 16 bits are added in f32 and rounded when they are stored.
bool keeps_partial_sums(const Call& call);
/// Whether sums of a call that rounds are those of adding the ranks' contributions one after the
/// other.
bool adds_in_rank_order(const Guarantees& guarantees, const Call& call);

/// A call and the manner in which it runs, as a few words that ranks publish and compare. Two marks
/// are equal only if the calls fit together.
struct CallMark {
  /// Purpose, peer-mapped buffers, memory, collective, type, operation, promise of bits, algorithm,
  /// protocol, block length.
  std::uint64_t signature = 0;
  std::uint64_t count = 0;  ///< or a digest of the counts, where there are several
  /// And a digest of a name: of a user's operation or, in calls that only move, of a foreign type.
  std::uint64_t root = 0;

  /// See Call::tensor: lengths in 16 bits each, or a digest. Of an algorithm that was added, a
  /// digest of this and of its schedules.
  std::uint64_t tensor = 0;

  bool operator==(const CallMark&) const = default;
  /// A hash: different marks have different digests in all likelihood, also in each half of the
  /// bits.
  std::uint64_t digest() const;
};

/// For tables of calls.
struct CallHash {
  std::size_t operator()(const Call& call) const;
};

/// How a call runs, as far as ranks have to agree about it.
struct CallManner {
  std::uint8_t algorithm = 0;  ///< index in the registry, below 128
  /// The digest of the schedules of an algorithm that was added at run time.
  std::uint64_t digest = 0;
  std::uint8_t protocol = 0;
  Elements block{};
};

CallMark mark_of(const Call& call, const CallManner& manner);

/// The digest of a sequence of calls, made of the digest of all calls before the last one and of
/// the last one's mark. Digests of marks are as good as random: two sequences that differ once stay
/// different, and the order counts.
constexpr std::uint64_t extend(std::uint64_t history, std::uint64_t digest) {
  return (std::rotl(history, 23) ^ digest) * 0x9e37'79b9'7f4a'7c15;
}

/// The details of a call of which a mark has only a digest.
struct CallDetails {
  std::string name{};                   ///< see name_in()
  std::vector<std::uint64_t> counts{};  ///< the first of several counts
};

/// The name of which the mark of a call has a digest: of a user's operation, or of a foreign type.
std::string_view name_in(const Call& call);

/// Whether a mark has details.
bool has_details(const CallMark& mark);

/// The call that a mark stands for, without what a mark has a digest of: several counts, the shape
/// of a tensor, a user's operation. Empty for a mark that this version does not know.
std::optional<Call> call_of(const CallMark& mark);

/// "all_reduce(1000 x f32, sum)", "broadcast(8 x i32, root 2)", "split()".
std::string to_string(const Call& call);
/// "all_reduce(1000 x f32, sum) by ring staged", "allocate()". Details that are not known are
/// left out.
std::string to_string(const CallMark& mark, const CallDetails& details = {});

}  // namespace capstan
