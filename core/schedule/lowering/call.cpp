// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/lowering/call.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "algorithms/registry.hpp"
#include "core/schedule/lowering/protocol.hpp"

namespace capstan {
namespace {

constexpr int purpose_shift = 1, peer_mapped_shift = 5, memory_shift = 7, collective_shift = 8,
              type_shift = 16, op_shift = 24, promise_shift = 29, algorithm_shift = 32,
              form_shift = 40, block_shift = 48, user_shift = 32;

std::uint64_t mix(std::uint64_t x) {
  // Finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

std::uint64_t digest(const std::vector<Elements>& counts) {
  std::uint64_t digest = counts.size();
  for (const Elements count : counts) digest = mix(digest + count.value() + 0x9e3779b97f4a7c15);
  return digest;
}

constexpr std::uint64_t is_digest = std::uint64_t{1} << 63;

/// Packs up to four lengths below 32767 as they are. Otherwise the result is a digest.
std::uint64_t pack_shape(const std::vector<std::int64_t>& shape) {
  std::uint64_t packed = 0, digest = shape.size();
  bool fits = shape.size() <= 4;
  for (const std::int64_t length : shape) {
    fits = fits && length < 32767;
    packed = packed << 16 | static_cast<std::uint64_t>(length + 1);
    digest = mix(digest + static_cast<std::uint64_t>(length) + 0x9e3779b97f4a7c15);
  }
  return fits ? packed : digest | is_digest;
}

std::string describe_tensor(std::uint64_t packed) {
  if (packed == 0) return "";
  if ((packed & is_digest) != 0) return fmt::format(", tensor #{:08x}", packed & 0xffff'ffff);
  std::string lengths;
  for (; packed != 0; packed >>= 16)
    lengths = fmt::format("{}{}{}", (packed & 0xffff) - 1, lengths.empty() ? "" : ", ", lengths);
  return fmt::format(", tensor [{}]", lengths);
}

/// Algorithms that were added at run time have numbers from here on, by seven bits of their
/// digests.
constexpr std::uint64_t added = 128;

std::uint64_t number_of(const CallManner& manner) {
  return manner.digest == 0 ? manner.algorithm : added | (manner.digest & (added - 1));
}

/// A digest of the length of blocks. Of an algorithm that the program has added, also of its
/// schedules.
std::uint64_t digest_of(const CallManner& manner) {
  return mix(manner.block.value() + (manner.digest << 32));
}

std::uint64_t field_of(const CallMark& mark, int shift) {
  return mark.signature >> shift & 0xff;
}

/// The operation's number, beside which there is a promise of bits.
std::uint64_t op_in(const CallMark& mark) {
  return mark.signature >> op_shift & 31;
}

/// The promise of a call that has one of its own.
std::optional<Reproducible> promise_in(const CallMark& mark) {
  const std::uint64_t number = mark.signature >> promise_shift & 7;
  if (number == 0 || number > static_cast<std::uint64_t>(Reproducible::rank_order) + 1)
    return std::nullopt;
  return static_cast<Reproducible>(number - 1);
}

std::uint64_t number_of(std::optional<Reproducible> promise) {
  return promise ? static_cast<std::uint64_t>(*promise) + 1 : 0;
}

/// Numbers of types from here on are those of foreign types, which travel as u8.
constexpr std::uint64_t foreign_types = 128;

std::uint64_t number_of(DataType type, ForeignType foreign) {
  return foreign.code == 0 ? static_cast<std::uint64_t>(type) : foreign_types | foreign.code;
}

/// The digest of a name in a mark: of a user's operation where elements are combined, else of a
/// foreign type.
std::uint32_t named_in(const CallMark& mark) {
  return static_cast<std::uint32_t>(mark.root >> user_shift);
}

bool reduces(const CallMark& mark) {
  return reduces(static_cast<Collective>(field_of(mark, collective_shift)));
}

struct MarkedType {
  DataType type{};
  ForeignType foreign{};
};
/// None for a type that this version does not know.
std::optional<MarkedType> type_in(const CallMark& mark) {
  const std::uint64_t number = field_of(mark, type_shift);
  if (number > foreign_types)
    return MarkedType{DataType::u8,
                      {.code = static_cast<std::uint8_t>(number - foreign_types),
                       .kind = reduces(mark) ? 0 : named_in(mark)}};
  if (number >= all_data_types().size()) return std::nullopt;
  return MarkedType{all_data_types()[number], {}};
}

Purpose purpose_of(const CallMark& mark) {
  return static_cast<Purpose>(field_of(mark, purpose_shift) & 15);
}

/// "through flags", or what stands for a protocol that this version does not know.
std::string_view protocol_in(const CallMark& mark) {
  const auto protocol = static_cast<Protocol>(field_of(mark, form_shift));
  return protocol > Protocol::write_output ? "in an unknown protocol" : name_of(protocol);
}

/// The name of a value that another rank has published, which may be none of them.
template <class Enum>
std::string_view name_among(std::span<const Enum> all, std::uint64_t value,
                            std::string_view unknown) {
  return value < all.size() ? name_of(all[value]) : unknown;
}

/// "1000 x", or "counts 3, 4, 5 of".
std::string describe_count(const CallMark& mark, const CallDetails& details) {
  if (!has_counts(static_cast<Collective>(field_of(mark, collective_shift))))
    return fmt::format("{} x", mark.count);
  if (details.counts.empty()) return "counts of";
  return fmt::format("counts {} of", fmt::join(details.counts, ", "));
}

std::string describe(const CallMark& mark, const CallDetails& details) {
  const auto collective = static_cast<Collective>(field_of(mark, collective_shift));
  auto marked = type_in(mark);
  if (marked && marked->foreign.kind != 0 && !details.name.empty())
    marked->foreign.name = details.name.c_str();
  const std::string type = marked ? to_string(marked->type, marked->foreign) : "an unknown type";
  const auto op = name_among(all_reduce_ops(), op_in(mark), "an unknown operation");
  const std::uint64_t root = mark.root;
  std::string text{
      name_among(all_collectives(), field_of(mark, collective_shift), "an unknown collective")};
  if (collective == Collective::barrier) return text + "()";
  text += fmt::format("({} {}", describe_count(mark, details), type);
  if (reduces(collective) && named_in(mark) != 0)
    text += details.name.empty() ? ", an operation of the program"
                                 : fmt::format(", operation \"{}\"", details.name);
  else if (reduces(collective))
    text += fmt::format(", {}", op);
  if (const auto promise = promise_in(mark)) text += fmt::format(", bits by {}", name_of(*promise));
  if (has_root(collective)) text += fmt::format(", root {}", root & 0xffff'ffff);
  const bool is_added = field_of(mark, algorithm_shift) >= added;
  return text + (is_added ? "" : describe_tensor(mark.tensor)) + ")";
}

/// The call as its caller knows it, and what ranks do among themselves for it.
std::string describe_purpose(const CallMark& mark, const CallDetails& details) {
  switch (purpose_of(mark)) {
    case Purpose::allocate:
      return "allocate()";
    case Purpose::split:
      return "split()";
    case Purpose::subgroup:
      return "subgroup()";
    case Purpose::twin:
      return "with_algorithm()";
    case Purpose::lengths:
      return "all_to_all_v(), telling first what lengths each rank sends";
    case Purpose::visibility:
      return describe(mark, details) + ", asking first what buffers all ranks have";
    case Purpose::decision:
      return describe(mark, details) + ", agreeing first on the fastest way";
    case Purpose::caller:
      break;
  }
  return describe(mark, details);
}

}  // namespace

bool rounds(const Call& call) {
  const bool adds_or_multiplies =
      call.op == ReduceOp::sum || call.op == ReduceOp::average || call.op == ReduceOp::product;
  return reduces(call.collective) && (call.user || (!is_integer(call.type) && adds_or_multiplies));
}

bool keeps_partial_sums(const Call& call) {
  return call.user || size_of(call.type) >= size_of(DataType::f32);
}

bool adds_in_rank_order(const Guarantees& guarantees, const Call& call) {
  return guarantees.rank_ordered_sum || (guarantees.left_fold && keeps_partial_sums(call));
}

std::uint64_t CallMark::digest() const {
  return mix(mix(mix(mix(signature) + count) + root) + tensor);
}

CallMark mark_of(const Call& call, const CallManner& manner) {
  const auto field = [](auto value, int shift) {
    return static_cast<std::uint64_t>(value) << shift;
  };
  if (call.about) {
    CallMark mark = mark_of(*call.about, manner);
    mark.signature |= field(call.purpose, purpose_shift);
    return mark;
  }
  const ReduceOp op = reduces(call.collective) ? call.op : ReduceOp{};
  const std::uint64_t named =
      call.user ? (std::hash<std::string>{}(call.user->name) + call.user->width - 1) | 1
      : reduces(call.collective) ? 0
                                 : call.foreign.kind;
  return {
      .signature = 1 | field(call.purpose, purpose_shift) |
                   field(call.peer_mapped, peer_mapped_shift) | field(call.memory, memory_shift) |
                   field(call.collective, collective_shift) |
                   field(number_of(call.type, call.foreign), type_shift) | field(op, op_shift) |
                   field(number_of(call.promise), promise_shift) |
                   field(number_of(manner), algorithm_shift) | field(manner.protocol, form_shift) |
                   digest_of(manner) << block_shift,
      .count = has_counts(call.collective) ? digest(call.shape.counts) : call.shape.count.value(),
      .root = static_cast<std::uint64_t>(call.shape.root) | named << user_shift,
      .tensor = manner.digest == 0 ? pack_shape(call.tensor)
                                   : mix(pack_shape(call.tensor) + manner.digest) | is_digest};
}

std::string_view name_in(const Call& call) {
  if (call.user) return call.user->name;
  return call.foreign.name ? call.foreign.name : "";
}

std::size_t CallHash::operator()(const Call& call) const {
  return mark_of(call, {}).digest();
}

bool has_details(const CallMark& mark) {
  return has_counts(static_cast<Collective>(field_of(mark, collective_shift))) ||
         named_in(mark) != 0;
}

std::optional<Call> call_of(const CallMark& mark) {
  const std::uint64_t collective = field_of(mark, collective_shift), op = op_in(mark);
  const auto type = type_in(mark);
  if (collective >= all_collectives().size() || !type || op >= all_reduce_ops().size() ||
      purpose_of(mark) > Purpose::lengths)
    return std::nullopt;
  Call call{.collective = all_collectives()[collective],
            .type = type->type,
            .foreign = type->foreign,
            .op = all_reduce_ops()[op],
            .shape = {.root = static_cast<int>(mark.root & 0xffff'ffff)},
            .purpose = purpose_of(mark),
            .promise = promise_in(mark)};
  if (!has_counts(call.collective)) call.shape.count = Elements{mark.count};
  return call;
}

std::string to_string(const Call& call) {
  CallDetails details{.name = std::string{name_in(call)}};
  for (const Elements count : call.shape.counts) details.counts.push_back(count.value());
  return describe_purpose(mark_of(call, {}), details);
}

std::string to_string(const CallMark& mark, const CallDetails& details) {
  const std::string text = describe_purpose(mark, details);
  if (purpose_of(mark) != Purpose::caller) return text;
  const std::uint64_t collective = field_of(mark, collective_shift);
  const auto known = collective < all_collectives().size()
                         ? algorithms(static_cast<Collective>(collective))
                         : decltype(algorithms(Collective{})){};
  const std::size_t index = field_of(mark, algorithm_shift);
  if (index >= added)
    return text + fmt::format(" by an algorithm that was added, #{:02x}", index - added);
  return text + fmt::format(" by {} {}",
                            index < known.size() ? known[index].name : "an unknown algorithm",
                            protocol_in(mark));
}

}  // namespace capstan
