// SPDX-License-Identifier: Apache-2.0

// Every collective through Capstan and through MPI on the same random inputs, compared: integers
// exactly; floats to 16 units of rounding of the sum of magnitudes, as the order of additions
// differs.
//
//   mpirun -n 4 processes_mpi_conformance [rounds] [seed]

#include <fmt/format.h>
#include <mpi.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

#include "capstan/communicator.hpp"

namespace capstan {
namespace {

template <class T>
MPI_Datatype mpi_type();
template <>
MPI_Datatype mpi_type<std::int8_t>() {
  return MPI_INT8_T;
}
template <>
MPI_Datatype mpi_type<std::int32_t>() {
  return MPI_INT32_T;
}
template <>
MPI_Datatype mpi_type<std::uint64_t>() {
  return MPI_UINT64_T;
}
template <>
MPI_Datatype mpi_type<float>() {
  return MPI_FLOAT;
}
template <>
MPI_Datatype mpi_type<double>() {
  return MPI_DOUBLE;
}

MPI_Op mpi_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::product:
      return MPI_PROD;
    case ReduceOp::min:
      return MPI_MIN;
    case ReduceOp::max:
      return MPI_MAX;
    default:
      return MPI_SUM;
  }
}

/// One call: what all ranks draw alike.
struct Draw {
  Collective collective;
  ReduceOp op;
  std::size_t count;
  int root;
  bool in_place;
  std::vector<std::size_t> lengths;  // of all pairs; the first p of them for one per rank
};

template <class T>
class Comparison {
 public:
  Comparison(Communicator& world, const Draw& draw, std::uint64_t seed)
      : world_(world),
        draw_(draw),
        p_(static_cast<std::size_t>(world.size())),
        self_(static_cast<std::size_t>(world.rank())),
        random_(seed * 1000 + self_) {}

  /// The number of elements that differ.
  std::size_t run() {
    prepare();
    call_mpi();
    call_capstan();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < expected_.size(); ++i) wrong += !same(actual_[i], expected_[i]);
    return wrong;
  }

 private:
  using enum Collective;

  static T draw_value(std::mt19937_64& random) {
    // Open MPI's sums of 8-bit integers saturate (its AVX code), and MPICH compares unsigned ones
    // as signed: stay where neither shows.
    if constexpr (sizeof(T) == 1)
      return static_cast<T>(static_cast<int>(random() % 15) - 7);
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(random() >> 2);
    else
      return static_cast<T>(std::uniform_real_distribution<double>{-1, 1}(random));
  }

  /// Counted by the largest magnitude that sums of p values from -1 to 1 can pass through.
  bool same(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return a == b;
    else
      return std::abs(a - b) <= 16 * std::numeric_limits<T>::epsilon() * static_cast<T>(p_);
  }

  std::size_t sent(std::size_t from, std::size_t to) const { return draw_.lengths[from * p_ + to]; }
  std::size_t total() const {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < p_; ++i) sum += draw_.lengths[i];
    return sum;
  }

  void prepare() {
    std::size_t in = draw_.count, out = draw_.count;
    const bool is_root = world_.rank() == draw_.root;
    switch (draw_.collective) {
      case barrier:
        in = out = 0;
        break;
      case all_gather:
        out *= p_;
        break;
      case gather:
        out = is_root ? out * p_ : 0;
        break;
      case reduce:
        out = is_root ? out : 0;
        break;
      case broadcast:
        in = is_root ? in : 0;
        break;
      case scatter:
        in = is_root ? in * p_ : 0;
        break;
      case reduce_scatter:
        in *= p_;
        break;
      case all_to_all:
        in *= p_, out *= p_;
        break;
      case all_gather_v:
        in = draw_.lengths[self_], out = total();
        break;
      case gather_v:
        in = draw_.lengths[self_], out = is_root ? total() : 0;
        break;
      case scatter_v:
        in = is_root ? total() : 0, out = draw_.lengths[self_];
        break;
      case reduce_scatter_v:
        in = total(), out = draw_.lengths[self_];
        break;
      case all_to_all_v:
        in = out = 0;
        for (std::size_t i = 0; i < p_; ++i) in += sent(self_, i), out += sent(i, self_);
        break;
      default:
        break;
    }
    input_.resize(in);
    for (T& value : input_) value = draw_value(random_);
    expected_.assign(out, T{});
    actual_.assign(out, T{});
  }

  static std::vector<int> ints(const std::vector<std::size_t>& lengths) {
    return {lengths.begin(), lengths.end()};
  }
  static std::vector<int> starts(const std::vector<int>& lengths) {
    std::vector<int> starts;
    int next = 0;
    for (const int length : lengths) starts.push_back(std::exchange(next, next + length));
    return starts;
  }
  std::vector<std::size_t> row() const {
    std::vector<std::size_t> row;
    for (std::size_t i = 0; i < p_; ++i) row.push_back(sent(self_, i));
    return row;
  }
  std::vector<std::size_t> column() const {
    std::vector<std::size_t> column;
    for (std::size_t i = 0; i < p_; ++i) column.push_back(sent(i, self_));
    return column;
  }
  std::vector<std::size_t> per_rank() const {
    return {draw_.lengths.begin(), draw_.lengths.begin() + static_cast<std::ptrdiff_t>(p_)};
  }

  void call_mpi() {
    const int n = static_cast<int>(draw_.count), own = static_cast<int>(input_.size());
    const MPI_Datatype type = mpi_type<T>();
    const MPI_Op op = mpi_op(draw_.op);
    const MPI_Comm all = MPI_COMM_WORLD;
    const auto lengths = ints(per_rank());
    T* const to = expected_.data();
    const T* const from = input_.data();
    switch (draw_.collective) {
      case barrier:
        MPI_Barrier(all);
        break;
      case broadcast:
        if (world_.rank() == draw_.root) expected_ = input_;
        MPI_Bcast(expected_.data(), n, type, draw_.root, all);
        break;
      case reduce:
        MPI_Reduce(from, to, n, type, op, draw_.root, all);
        break;
      case all_reduce:
        MPI_Allreduce(from, to, n, type, op, all);
        break;
      case all_gather:
        MPI_Allgather(from, n, type, to, n, type, all);
        break;
      case reduce_scatter:
        MPI_Reduce_scatter_block(from, to, n, type, op, all);
        break;
      case gather:
        MPI_Gather(from, n, type, to, n, type, draw_.root, all);
        break;
      case scatter:
        MPI_Scatter(from, n, type, to, n, type, draw_.root, all);
        break;
      case all_to_all:
        MPI_Alltoall(from, n, type, to, n, type, all);
        break;
      case scan:
        MPI_Scan(from, to, n, type, op, all);
        break;
      case exscan:
        MPI_Exscan(from, to, n, type, op, all);
        if (self_ == 0) expected_.assign(expected_.size(), T{});  // MPI leaves it undefined
        break;
      case all_gather_v:
        MPI_Allgatherv(from, own, type, to, lengths.data(), starts(lengths).data(), type, all);
        break;
      case gather_v:
        MPI_Gatherv(from, own, type, to, lengths.data(), starts(lengths).data(), type, draw_.root,
                    all);
        break;
      case scatter_v:
        MPI_Scatterv(from, lengths.data(), starts(lengths).data(), type, to,
                     static_cast<int>(expected_.size()), type, draw_.root, all);
        break;
      case reduce_scatter_v:
        MPI_Reduce_scatter(from, to, lengths.data(), type, op, all);
        break;
      case all_to_all_v: {
        const auto out = ints(row()), in = ints(column());
        MPI_Alltoallv(from, out.data(), starts(out).data(), type, to, in.data(), starts(in).data(),
                      type, all);
        break;
      }
    }
  }

  void call_capstan() {
    const int root = draw_.root;
    const auto lengths = per_rank();
    const ReduceOp op = draw_.op;
    switch (draw_.collective) {
      case barrier:
        return world_.barrier();
      case broadcast:
        if (!draw_.in_place) return world_.broadcast(input_, actual_, root);
        if (world_.rank() == root) actual_ = input_;
        return world_.broadcast(actual_, root);
      case reduce:
        return world_.reduce(input_, actual_, root, op);
      case all_reduce:
        if (!draw_.in_place) return world_.all_reduce(input_, actual_, op);
        return world_.all_reduce(actual_ = input_, op);
      case all_gather:
        if (!draw_.in_place) return world_.all_gather(input_, actual_);
        std::ranges::copy(input_, own_block().begin());
        return world_.all_gather(own_block(), actual_);
      case reduce_scatter:
        return world_.reduce_scatter(input_, actual_, op);
      case gather:
        return world_.gather(input_, actual_, root);
      case scatter:
        return world_.scatter(input_, actual_, root);
      case all_to_all:
        if (!draw_.in_place) return world_.all_to_all(input_, actual_);
        return world_.all_to_all(actual_ = input_);
      case scan:
        if (!draw_.in_place) return world_.scan(input_, actual_, op);
        return world_.scan(actual_ = input_, op);
      case exscan:
        return world_.exscan(input_, actual_, op);
      case all_gather_v:
        return world_.all_gather_v(input_, actual_, lengths);
      case gather_v:
        return world_.gather_v(input_, actual_, lengths, root);
      case scatter_v:
        return world_.scatter_v(input_, actual_, lengths, root);
      case reduce_scatter_v:
        return world_.reduce_scatter_v(input_, actual_, lengths, op);
      case all_to_all_v:
        return world_.all_to_all_v(input_, row(), actual_, column());
    }
  }

  std::span<T> own_block() { return std::span{actual_}.subspan(self_ * draw_.count, draw_.count); }

  Communicator& world_;
  const Draw& draw_;
  const std::size_t p_, self_;
  std::mt19937_64 random_;
  std::vector<T> input_, expected_, actual_;
};

Draw draw_call(std::mt19937_64& random, int ranks) {
  const auto all = all_collectives();
  constexpr ReduceOp ops[] = {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max};
  constexpr std::size_t counts[] = {0, 1, 2, 7, 100, 1023, 5000, 60001};
  Draw draw{.collective = all[random() % all.size()],
            .op = ops[random() % 4],
            .count = counts[random() % 8],
            .root = static_cast<int>(random() % static_cast<unsigned>(ranks)),
            .in_place = random() % 2 == 0,
            .lengths = {}};
  for (int i = 0; i < ranks * ranks; ++i)
    draw.lengths.push_back(random() % 4 == 0 ? 0 : random() % (draw.count + 1));
  return draw;
}

std::size_t compare(Communicator& world, Draw draw, std::uint64_t seed, unsigned type) {
  if (type == 0 && draw.op == ReduceOp::product) draw.op = ReduceOp::sum;
  switch (type) {
    case 0:
      return Comparison<std::int8_t>{world, draw, seed}.run();
    case 1:
      return Comparison<std::int32_t>{world, draw, seed}.run();
    case 2:
      return Comparison<std::uint64_t>{world, draw, seed}.run();
    case 3:
      return Comparison<float>{world, draw, seed}.run();
    default:
      return Comparison<double>{world, draw, seed}.run();
  }
}

int run(int rounds, std::uint64_t seed) {
  Communicator world = Communicator::from_environment();
  std::mt19937_64 random{seed};
  for (int round = 0; round < rounds; ++round) {
    const Draw draw = draw_call(random, world.size());
    const auto type = static_cast<unsigned>(random() % 5);
    const std::size_t wrong = compare(world, draw, seed + static_cast<std::uint64_t>(round), type);
    if (wrong == 0) continue;
    fmt::print(
        "rank {}: {} differs from MPI in {} elements: round {}, seed {}, {} elements, {}, "
        "root {}, type {}\n",
        world.rank(), name_of(draw.collective), wrong, round, seed, draw.count, name_of(draw.op),
        draw.root, type);
    return 1;
  }
  world.barrier();
  if (world.rank() == 0)
    fmt::print("{} calls over {} ranks agree with MPI\n", rounds, world.size());
  return 0;
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 1;
  try {
    status = capstan::run(argc > 1 ? std::atoi(argv[1]) : 500,
                          argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
  } catch (const std::exception& error) {
    fmt::print("{}\n", error.what());
  }
  if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
  MPI_Finalize();
  return status;
}
