#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives.hpp"
#include "ir/error.hpp"
#include "settings.hpp"
#include "tensor.hpp"
#include "unique_id.hpp"

namespace capstan {

/// A fixed set of ranks that call collectives together: all that a program needs of Capstan.
///
///   auto world = capstan::Communicator::from_environment();
///   world.all_reduce(mine, sums);                            // blocks
///   capstan::Work work = world.start_all_reduce(mine, sums);  // see Work
///
/// Every rank calls the same collectives in the same order with the same counts, types, operations
/// and roots; if not, every rank gets a Mismatch that says who called what. (A rank that only
/// sends, like the root of a broadcast, may learn of it a few calls later.) When a peer dies, every
/// survivor that needs it gets a PeerLost that names it. After any such error the communicator is
/// unusable: all later calls throw the same error. InvalidArgument leaves it as it was.
///
/// Operations of a communicator run in the order in which they are started. A world and the groups
/// made from it are used by one thread at a time, unless there is a progress thread
/// (Settings::progress_thread): then all functions are thread-safe. Different worlds are
/// independent.
class Communicator : public Collectives<Communicator> {
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

  /// The untyped way in, for bindings: see Request and Collectives.
  void run(const Request& request);
  Work start(const Request& request);

  using Collectives::all_gather;
  using Collectives::all_reduce;
  using Collectives::broadcast;
  using Collectives::reduce_scatter;
  using Collectives::start_all_gather;
  using Collectives::start_all_reduce;
  using Collectives::start_broadcast;
  using Collectives::start_reduce_scatter;

  // Tensors, in host memory. Those whose elements do not lie one after the other, in the order in
  // which they travel, are packed and unpacked. Ranks whose tensors differ in shape or type get a
  // Mismatch; shapes that do not fit together here, an InvalidArgument.

  /// In place.
  void all_reduce(const TensorView& data, const Reducer& reducer = {});
  Work start_all_reduce(const TensorView& data, const Reducer& reducer = {});
  void broadcast(const TensorView& data, int root);
  Work start_broadcast(const TensorView& data, int root);
  /// The output is as long as the input, but p times as long along `dimension`, where the inputs of
  /// the ranks follow one another.
  void all_gather(const TensorView& input, const TensorView& output, int dimension = 0);
  Work start_all_gather(const TensorView& input, const TensorView& output, int dimension = 0);
  /// The input is p times as long as the output along `dimension`; each rank gets its slice of the
  /// sum.
  void reduce_scatter(const TensorView& input, const TensorView& output, int dimension = 0,
                      const Reducer& reducer = {});
  Work start_reduce_scatter(const TensorView& input, const TensorView& output, int dimension = 0,
                            const Reducer& reducer = {});

  /// One all_reduce, in place, for many buffers: small ones, like the gradients of many layers,
  /// cost as much as one of their total length. The buffers are packed into one and unpacked again.
  template <Element T>
  void all_reduce_fused(std::span<const std::span<T>> buffers, const Reducer& reducer = {}) {
    run_fused(pieces_of(buffers), *data_type_of<T>, reducer);
  }
  template <Element T>
  Work start_all_reduce_fused(std::span<const std::span<T>> buffers, const Reducer& reducer = {}) {
    return start_fused(pieces_of(buffers), *data_type_of<T>, reducer);
  }

  /// Groups the ranks that pass the same colour into a communicator of their own, in the order of
  /// `key` and, among equals, of rank. All ranks call it; one that passes a negative colour gets
  /// nothing. Groups are independent: their operations involve their members only, and they may
  /// overlap with other groups and outlive this communicator.
  std::optional<Communicator> split(int colour, int key = 0);

  /// A communicator of these ranks, in this order. All ranks of this communicator call it with the
  /// same list; those that are not in it get nothing.
  std::optional<Communicator> subgroup(std::span<const int> ranks);

  /// The rank in the world of this communicator's `rank`.
  int world_rank(int rank) const;
  /// The rank here of a rank of the world, if it is a member.
  std::optional<int> rank_of(int world_rank) const;

  /// How a call would run here, and why, in one line. The request's memory is not touched.
  std::string explain(const Request& request) const;
  /// Just the algorithm's name.
  std::string algorithm(const Request& request) const;

 private:
  class Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  std::optional<Communicator> form(const std::vector<int>& members);

  /// A call with what has to be done before and after it.
  struct Prepared;
  using Piece = std::span<std::byte>;
  template <Element T>
  static std::vector<Piece> pieces_of(std::span<const std::span<T>> buffers) {
    std::vector<Piece> pieces;
    for (const std::span<T>& buffer : buffers) pieces.push_back(std::as_writable_bytes(buffer));
    return pieces;
  }
  Prepared prepare(const Request& request) const;
  void run_fused(std::vector<Piece> pieces, DataType type, const Reducer& reducer);
  Work start_fused(std::vector<Piece> pieces, DataType type, const Reducer& reducer);
  Prepared prepare_fused(std::vector<Piece> pieces, DataType type, const Reducer& reducer) const;
  Prepared prepare_in_place(Collective collective, const TensorView& data, int root,
                            const Reducer& reducer) const;
  Prepared prepare_gather(const TensorView& input, const TensorView& output, int dimension) const;
  Prepared prepare_scatter(const TensorView& input, const TensorView& output, int dimension,
                           const Reducer& reducer) const;
  void run(Prepared prepared);
  Work start(Prepared prepared);

  std::unique_ptr<Impl> impl_;
};

}  // namespace capstan
