#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/error.hpp"
#include "ir/types.hpp"
#include "settings.hpp"
#include "unique_id.hpp"

namespace capstan {

/// A fixed set of ranks that call collectives together: all that a program needs of Capstan.
///
///   auto world = capstan::Communicator::from_environment();
///   world.all_reduce(std::span<const float>{mine}, std::span<float>{sums});
///
/// Every rank calls the same collectives in the same order with the same counts, types and
/// operations; if not, every rank gets a Mismatch that says who called what. When a peer dies,
/// every survivor gets a PeerLost that names it. After any such error the communicator is unusable:
/// all later calls throw the same error.
///
/// A communicator is used by one thread at a time; different communicators are independent.
class Communicator {
 public:
  /// Joins the world that a launcher has started: mpirun (Open MPI, MPICH), srun, torchrun or
  /// `capstan run`; alone when there is none. Throws BootstrapError when a rank does not join
  /// within settings.join_timeout, InvalidArgument when the launcher's variables make no sense.
  static Communicator from_environment(const Settings& settings = Settings::from_environment());

  /// Joins a world that the program set up itself: one process calls create_unique_id() and passes
  /// the id round by its own means; then each calls this with a rank of its own, 0 .. size-1.
  static Communicator join(const UniqueId& id, int rank, int size,
                           const Settings& settings = Settings::from_environment());

  /// A world of threads in this process; the n-th communicator is for the n-th thread.
  static std::vector<Communicator> local_world(
      int ranks, const Settings& settings = Settings::from_environment());

  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  /// Does not wait for peers. Peers that still need this rank get a PeerLost.
  ~Communicator();

  int rank() const;
  int size() const;

  /// output[i] = op over all ranks of input[i]. Blocks until this rank's output is complete.
  /// `input` and `output` are equally long on all ranks and either the same memory or disjoint.
  template <Element T, std::size_t N, std::size_t M>
  void all_reduce(std::span<const T, N> input, std::span<T, M> output,
                  ReduceOp op = ReduceOp::sum) {
    require_equal_lengths(input.size(), output.size());
    all_reduce(input.data(), output.data(), Elements{input.size()}, *data_type_of<T>, op);
  }

  /// In place.
  template <Element T, std::size_t N>
  void all_reduce(std::span<T, N> data, ReduceOp op = ReduceOp::sum) {
    all_reduce(data.data(), data.data(), Elements{data.size()}, *data_type_of<T>, op);
  }

  /// The same on untyped memory: `count` elements of `type`, aligned as the type is.
  void all_reduce(const void* input, void* output, Elements count, DataType type, ReduceOp op);

  /// How an all_reduce of `count` elements would run here, and why, in one line.
  std::string explain_all_reduce(Elements count, DataType type) const;
  /// Just the algorithm's name.
  std::string all_reduce_algorithm(Elements count, DataType type) const;

 private:
  class Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  void require_equal_lengths(std::size_t input, std::size_t output) const;

  std::unique_ptr<Impl> impl_;
};

}  // namespace capstan
