// SPDX-License-Identifier: Apache-2.0
#include "bindings/mpi/types.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <vector>

namespace capstan::mpi {
namespace {

using Classes = std::unordered_map<std::uintptr_t, TypeClass>;

void add(Classes& all, TypeClass type_class, std::initializer_list<MPI_Datatype> types) {
  for (const MPI_Datatype type : types)
    if (number_of(type) != 0 && type != MPI_DATATYPE_NULL) all.emplace(number_of(type), type_class);
}

/// Handles that an MPI lacks are null, or the same as others.
const Classes& classes() {
  static const Classes& all = *[] {
    auto* made = new Classes;
    using enum TypeClass;
    add(*made, signed_integer,
        {MPI_CHAR, MPI_SIGNED_CHAR, MPI_SHORT, MPI_INT, MPI_LONG, MPI_LONG_LONG_INT, MPI_INT8_T,
         MPI_INT16_T, MPI_INT32_T, MPI_INT64_T});
    add(*made, other_signed,
        {MPI_AINT, MPI_COUNT, MPI_OFFSET, MPI_INTEGER, MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4,
         MPI_INTEGER8});
    add(*made, unsigned_integer,
        {MPI_UNSIGNED_CHAR, MPI_UNSIGNED_SHORT, MPI_UNSIGNED, MPI_UNSIGNED_LONG,
         MPI_UNSIGNED_LONG_LONG, MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T});
    add(*made, real,
        {MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_REAL, MPI_DOUBLE_PRECISION, MPI_REAL4,
         MPI_REAL8});
    add(*made, complex,
        {MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_C_LONG_DOUBLE_COMPLEX, MPI_COMPLEX,
         MPI_DOUBLE_COMPLEX, MPI_COMPLEX8, MPI_COMPLEX16, MPI_CXX_FLOAT_COMPLEX,
         MPI_CXX_DOUBLE_COMPLEX, MPI_CXX_LONG_DOUBLE_COMPLEX});
    add(*made, logical, {MPI_C_BOOL, MPI_LOGICAL, MPI_CXX_BOOL});
    add(*made, byte, {MPI_BYTE});
    add(*made, pair,
        {MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_2INT, MPI_SHORT_INT, MPI_LONG_DOUBLE_INT,
         MPI_2REAL, MPI_2DOUBLE_PRECISION, MPI_2INTEGER});
    return made;
  }();
  return all;
}

/// Capstan's type of this class and size.
std::optional<DataType> element_of(TypeClass type_class, std::size_t size) {
  using enum DataType;
  struct Row {
    TypeClass type_class;
    std::size_t size;
    DataType type;
  };
  static constexpr Row rows[] = {{TypeClass::signed_integer, 1, i8},
                                 {TypeClass::signed_integer, 4, i32},
                                 {TypeClass::signed_integer, 8, i64},
                                 {TypeClass::other_signed, 1, i8},
                                 {TypeClass::other_signed, 4, i32},
                                 {TypeClass::other_signed, 8, i64},
                                 {TypeClass::unsigned_integer, 1, u8},
                                 {TypeClass::unsigned_integer, 4, u32},
                                 {TypeClass::unsigned_integer, 8, u64},
                                 {TypeClass::byte, 1, u8},
                                 {TypeClass::real, 4, f32},
                                 {TypeClass::real, 8, f64},
                                 {TypeClass::complex, 8, c64},
                                 {TypeClass::complex, 16, c128}};
  for (const Row& row : rows)
    if (row.type_class == type_class && row.size == size) return row.type;
  return std::nullopt;
}

/// How a type was made. Types with counts of any length have forms of their own for that, where MPI
/// has such types; their contents are told of all types.
class Envelope {
 public:
  explicit Envelope(MPI_Datatype type) : type_(type) {
    static const auto of_any = reinterpret_cast<WideEnvelope*>(symbol("PMPI_Type_get_envelope_c"));
    if (of_any) {
      require(of_any(type, &integers_, &addresses_, &counts_, &types_, &combiner_));
      return;
    }
    int integers = 0, addresses = 0, types = 0;
    require(calls.Type_get_envelope(type, &integers, &addresses, &types, &combiner_));
    integers_ = integers, addresses_ = addresses, types_ = types;
  }

  bool is_predefined() const { return types_ == 0 && combiner_ == MPI_COMBINER_NAMED; }
  bool is_copies_of_one() const {
    return types_ == 1 && (combiner_ == MPI_COMBINER_DUP || combiner_ == MPI_COMBINER_CONTIGUOUS);
  }
  /// The type that it was made of, as a reference of its own.
  MPI_Datatype inner() const {
    static const auto of_any = reinterpret_cast<WideContents*>(symbol("PMPI_Type_get_contents_c"));
    std::vector<int> integers(static_cast<std::size_t>(integers_) + 1);
    std::vector<MPI_Aint> addresses(static_cast<std::size_t>(addresses_) + 1);
    std::vector<MPI_Count> counts(static_cast<std::size_t>(counts_) + 1);
    MPI_Datatype inner = MPI_DATATYPE_NULL;
    if (of_any)
      require(of_any(type_, integers_, addresses_, counts_, 1, integers.data(), addresses.data(),
                     counts.data(), &inner));
    else
      require(calls.Type_get_contents(type_, static_cast<int>(integers_),
                                      static_cast<int>(addresses_), 1, integers.data(),
                                      addresses.data(), &inner));
    return inner;
  }

 private:
  using WideEnvelope = int(MPI_Datatype, MPI_Count*, MPI_Count*, MPI_Count*, MPI_Count*, int*);
  using WideContents = int(MPI_Datatype, MPI_Count, MPI_Count, MPI_Count, MPI_Count, int*,
                           MPI_Aint*, MPI_Count*, MPI_Datatype*);

  MPI_Datatype type_;
  MPI_Count integers_ = 0, addresses_ = 0, counts_ = 0, types_ = 0;
  int combiner_ = 0;
};

bool fills_its_extent(MPI_Datatype type) {
  MPI_Count size = 0;
  MPI_Aint lower = 0, extent = 0;
  require(calls.Type_size_x(type, &size));
  require(calls.Type_get_extent(type, &lower, &extent));
  return lower == 0 && size == static_cast<MPI_Count>(extent);
}

/// Whether a type is a run of a predefined type without gaps. Others may have their data in another
/// order than in memory, which neither sizes nor extents tell.
bool is_run(MPI_Datatype type) {
  const Envelope envelope{type};
  if (envelope.is_predefined()) return fills_its_extent(type);
  if (!envelope.is_copies_of_one()) return false;
  MPI_Datatype inner = envelope.inner();
  const bool run = is_run(inner);
  if (!Envelope{inner}.is_predefined())
    own_as<int(MPI_Datatype*)>(Id::Type_free)(&inner);  // a reference of its own
  return run;
}

Layout examine(MPI_Datatype type) {
  Layout layout{.type = type};
  MPI_Count size = 0;
  MPI_Aint lower = 0, extent = 0, true_lower = 0, true_extent = 0;
  require(calls.Type_size_x(type, &size));
  require(calls.Type_get_extent(type, &lower, &extent));
  require(calls.Type_get_true_extent(type, &true_lower, &true_extent));
  layout.size = size > 0 ? static_cast<std::size_t>(size) : 0;
  layout.extent = extent;
  layout.predefined = Envelope{type}.is_predefined();
  layout.direct =
      lower == 0 && true_lower == 0 && size == static_cast<MPI_Count>(extent) && is_run(type);
  const auto found = classes().find(number_of(type));
  if (found != classes().end()) layout.type_class = found->second;
  if (layout.direct) layout.element = element_of(layout.type_class, layout.size);
  return layout;
}

/// A run of elements for MPI_Pack, which MPICH does not let begin at MPI_BOTTOM: the same elements
/// as one of a type that begins a byte earlier.
class Rebased {
 public:
  Rebased(const void* start, int count, MPI_Datatype type)
      : start_(start), count_(count), type_(type) {
    if (start) return;
    const MPI_Aint offset = -1;
    require(calls.Type_create_hindexed_block(1, count, &offset, type, &made_));
    require(calls.Type_commit(&made_));
    owns_ = true;
    start_ = reinterpret_cast<const void*>(1);
    count_ = 1;
    type_ = made_;
  }
  ~Rebased() {
    if (owns_) own_as<int(MPI_Datatype*)>(Id::Type_free)(&made_);
  }
  Rebased(const Rebased&) = delete;

  const void* start() const { return start_; }
  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  const void* start_;
  int count_;
  MPI_Datatype type_, made_{};
  bool owns_ = false;
};

/// Calls part(first element, elements) for pieces whose bytes an int can count.
template <class Part>
void in_pieces(MPI_Count count, const Layout& layout, const Part& part) {
  constexpr std::size_t most_bytes = std::size_t{1} << 30;
  const auto piece = static_cast<MPI_Count>(
      std::max<std::size_t>(most_bytes / std::max<std::size_t>(layout.size, 1), 1));
  for (MPI_Count first = 0; first < count; first += piece)
    part(first, static_cast<int>(std::min(piece, count - first)));
}

/// Predefined types are never freed, so what is known of them stays true.
Layout known_or_examined(MPI_Datatype type) {
  thread_local std::unordered_map<std::uintptr_t, Layout> predefined;
  const auto known = predefined.find(number_of(type));
  if (known != predefined.end()) return known->second;
  const Layout layout = examine(type);
  if (layout.predefined) predefined.emplace(number_of(type), layout);
  return layout;
}

/// The layout that this thread has asked for last, where the thread finds it without a call.
__attribute__((tls_model("initial-exec"))) thread_local constinit Layout last_layout{};

}  // namespace

Layout layout_of(MPI_Datatype type) {
  if (last_layout.predefined && last_layout.type == type) return last_layout;
  return last_layout = known_or_examined(type);
}

bool is_predefined_type(MPI_Datatype type) noexcept {
  try {
    return layout_of(type).predefined;
  } catch (const Failed&) {
    return true;
  }
}

Layout bytes_layout() {
  return {.type = MPI_BYTE, .size = 1, .extent = 1, .direct = true, .predefined = true};
}

void pack(const void* from, MPI_Count count, const Layout& layout, std::byte* to) {
  const auto bytes = static_cast<std::size_t>(count) * layout.size;
  if (bytes == 0) return;
  if (layout.direct) {
    std::memcpy(to, first_byte(from, layout), bytes);
    return;
  }
  in_pieces(count, layout, [&](MPI_Count first, int length) {
    const auto* const start = static_cast<const std::byte*>(from) + first * layout.extent;
    const auto room = static_cast<int>(static_cast<std::size_t>(length) * layout.size);
    int position = 0;
    const Rebased run{start, length, layout.type};
    require(calls.Pack(run.start(), run.count(), run.type(),
                       to + static_cast<std::size_t>(first) * layout.size, room, &position,
                       MPI_COMM_SELF));
  });
}

void unpack(const std::byte* from, void* to, MPI_Count count, const Layout& layout) {
  const auto bytes = static_cast<std::size_t>(count) * layout.size;
  if (bytes == 0) return;
  if (layout.direct) {
    std::memmove(first_byte(to, layout), from, bytes);
    return;
  }
  in_pieces(count, layout, [&](MPI_Count first, int length) {
    auto* const start = static_cast<std::byte*>(to) + first * layout.extent;
    const auto room = static_cast<int>(static_cast<std::size_t>(length) * layout.size);
    int position = 0;
    const Rebased run{start, length, layout.type};
    require(calls.Unpack(from + static_cast<std::size_t>(first) * layout.size, room, &position,
                         const_cast<void*>(run.start()), run.count(), run.type(), MPI_COMM_SELF));
  });
}

}  // namespace capstan::mpi
