// SPDX-License-Identifier: Apache-2.0
#include "bindings/mpi/operations.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>
#include <vector>

namespace capstan::mpi {
namespace {

/// An operation that MPI defines.
struct Known {
  MPI_Op op;
  std::optional<ReduceOp> own;  ///< Capstan's
  std::vector<TypeClass> classes;
};

const std::vector<Known>& known_operations() {
  using enum TypeClass;
  static const auto& all = *new std::vector<Known>{
      {MPI_SUM, ReduceOp::sum, {signed_integer, unsigned_integer, other_signed, real, complex}},
      {MPI_PROD,
       ReduceOp::product,
       {signed_integer, unsigned_integer, other_signed, real, complex}},
      {MPI_MIN, ReduceOp::min, {signed_integer, unsigned_integer, other_signed, real}},
      {MPI_MAX, ReduceOp::max, {signed_integer, unsigned_integer, other_signed, real}},
      {MPI_BAND, ReduceOp::bit_and, {signed_integer, unsigned_integer, other_signed, byte}},
      {MPI_BOR, ReduceOp::bit_or, {signed_integer, unsigned_integer, other_signed, byte}},
      {MPI_BXOR, ReduceOp::bit_xor, {signed_integer, unsigned_integer, other_signed, byte}},
      {MPI_LAND, ReduceOp::logical_and, {signed_integer, unsigned_integer, logical}},
      {MPI_LOR, ReduceOp::logical_or, {signed_integer, unsigned_integer, logical}},
      {MPI_LXOR, ReduceOp::logical_xor, {signed_integer, unsigned_integer, logical}},
      {MPI_MINLOC, std::nullopt, {pair}},
      {MPI_MAXLOC, std::nullopt, {pair}},
      {MPI_REPLACE, std::nullopt, {}},
      {MPI_NO_OP, std::nullopt, {}}};
  return all;
}

const Known* known(MPI_Op op) {
  for (const Known& each : known_operations())
    if (each.op == op) return &each;
  return nullptr;
}

/// Aligned memory for a few operands.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes)
      : more_(bytes > sizeof few_ ? bytes / sizeof(std::max_align_t) + 1 : 0) {}
  std::byte* data() { return more_.empty() ? few_ : reinterpret_cast<std::byte*>(more_.data()); }

 private:
  alignas(64) std::byte few_[4096];
  std::vector<std::max_align_t> more_;
};

bool is_aligned(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % alignof(std::max_align_t) == 0;
}

/// Combines operands that Capstan has as bytes, as they lie in memory or packed. MPI combines (a,
/// b) into b, where a is the lower rank's.
class ByMpi {
 public:
  ByMpi(MPI_Op op, const Layout& layout, bool commutative)
      : op_(op), layout_(layout), commutative_(commutative) {}

  void operator()(void* accumulator, const void* next, std::size_t count) const {
    if (layout_.direct)
      combine_bytes(static_cast<std::byte*>(accumulator), next, count);
    else
      combine_packed(static_cast<std::byte*>(accumulator), static_cast<const std::byte*>(next),
                     static_cast<MPI_Count>(count));
  }

 private:
  void reduce(const void* from, void* into, std::size_t count) const {
    if (calls.Reduce_local(from, into, static_cast<int>(count), layout_.type, op_) != MPI_SUCCESS)
      throw std::runtime_error("MPI_Reduce_local has failed");
  }

  void combine_bytes(std::byte* accumulator, const void* next, std::size_t count) const {
    if (commutative_ && is_aligned(accumulator) && is_aligned(next))
      return reduce(next, accumulator, count);
    const std::size_t bytes = count * layout_.size;
    Scratch lower{bytes}, upper{bytes};
    std::memcpy(lower.data(), accumulator, bytes);
    std::memcpy(upper.data(), next, bytes);
    reduce(lower.data(), upper.data(), count);
    std::memcpy(accumulator, upper.data(), bytes);
  }

  /// Elements may begin before their address and reach beyond their extent.
  void combine_packed(std::byte* accumulator, const std::byte* next, MPI_Count count) const {
    MPI_Aint begin = 0, extent = 0;
    require(calls.Type_get_true_extent(layout_.type, &begin, &extent));
    const std::ptrdiff_t run = layout_.extent * (static_cast<std::ptrdiff_t>(count) - 1);
    const std::ptrdiff_t before = std::min<std::ptrdiff_t>(run, 0);
    const auto room = static_cast<std::size_t>(extent + (run < 0 ? -run : run));
    Scratch lower{room}, upper{room};
    std::byte* const first = lower.data() - before - begin;
    std::byte* const second = upper.data() - before - begin;
    unpack(accumulator, first, count, layout_);
    unpack(next, second, count, layout_);
    reduce(first, second, static_cast<std::size_t>(count));
    pack(second, count, layout_, accumulator);
  }

  const MPI_Op op_;
  const Layout layout_;
  const bool commutative_;
};

Reduction combined_by_mpi(MPI_Op op, const Layout& layout, bool commutative) {
  UserOperation operation{.name = commutative ? "of MPI" : "of MPI, in the order of ranks",
                          .type = DataType::u8,
                          .commutative = commutative,
                          .accumulate = ByMpi{op, layout, commutative},
                          .width = layout.size};
  return {DataType::u8, Reducer::of(std::move(operation)), layout};
}

/// Knowledge of an operation on a type, for as long as their handles mean the same: those of
/// the program's own may come to mean others.
struct Remembered {
  std::optional<Reduction> reduction;
  bool commutative = true;
  Layout layout{};

  bool holds(bool still_commutative, const Layout& now) const {
    return commutative == still_commutative && layout.size == now.size &&
           layout.extent == now.extent && layout.direct == now.direct;
  }
};

bool is_commutative(MPI_Op op) {
  int commutative = 1;
  require(calls.Op_commutative(op, &commutative));
  return commutative != 0;
}

Remembered examine(MPI_Op op, const Layout& layout, bool commutative) {
  constexpr std::size_t longest_operand = 256;  // see UserOperation::width
  Remembered made{std::nullopt, commutative, layout};
  const Known* const predefined = known(op);
  bool defined = !predefined;
  if (predefined)
    for (const TypeClass allowed : predefined->classes)
      defined = defined || allowed == layout.type_class;
  if (!defined || layout.size < 1 || layout.size > longest_operand) return made;
  if (predefined && predefined->own && layout.element &&
      supports(*layout.element, *predefined->own))
    made.reduction = Reduction{*layout.element, Reducer{*predefined->own}, layout};
  else
    made.reduction = combined_by_mpi(op, layout, commutative);
  return made;
}

}  // namespace

bool is_predefined(MPI_Op op) {
  return op == MPI_OP_NULL || known(op);
}

const Reduction* reduction_of(MPI_Op op, const Layout& layout) {
  using Key = std::pair<std::uintptr_t, std::uintptr_t>;
  thread_local std::map<Key, Remembered> remembered;
  thread_local struct {
    Key key{};
    const Remembered* value = nullptr;
  } last;
  const Key key{number_of(op), number_of(layout.type)};
  if (last.value && last.key == key && last.value->reduction &&
      !last.value->reduction->reducer.user())
    return &*last.value->reduction;
  if (op == MPI_OP_NULL) return nullptr;
  const bool commutative = is_commutative(op);
  constexpr std::size_t most = 1000;
  if (remembered.size() >= most && !remembered.contains(key)) remembered.clear();
  const auto [found, is_new] = remembered.try_emplace(key);
  if (is_new || !found->second.holds(commutative, layout))
    found->second = examine(op, layout, commutative);
  last = {key, &found->second};
  return found->second.reduction ? &*found->second.reduction : nullptr;
}

}  // namespace capstan::mpi
