#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives.hpp"
#include "ir/error.hpp"
#include "settings.hpp"
#include "unique_id.hpp"

namespace capstan {

/// A fixed set of ranks that call collectives together: all that a program needs of Capstan.
///
///   auto world = capstan::Communicator::from_environment();
///   world.all_reduce(mine, sums);                            // blocks
///   capstan::Work work = world.start_all_reduce(mine, sums);  // see Work
///
/// Every rank calls the same collectives in the same order with the same counts, types, operations
/// and roots; if not, every rank gets a Mismatch that says who called what. (A rank that only sends,
/// like the root of a broadcast, may learn of it a few calls later.) When a peer dies, every
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

  std::unique_ptr<Impl> impl_;
};

}  // namespace capstan
