// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capstan/all_collectives.hpp"
#include "capstan/error.hpp"
#include "capstan/export.hpp"
#include "capstan/membership.hpp"
#include "capstan/message.hpp"
#include "capstan/owning_tensor.hpp"
#include "capstan/settings.hpp"
#include "capstan/shared_buffer.hpp"
#include "capstan/store.hpp"
#include "capstan/tensor.hpp"
#include "capstan/unique_id.hpp"
#include "capstan/version.hpp"

namespace CAPSTAN_EXPORT capstan {

class Profiler;
class StreamCollectives;
enum class Purpose : std::uint8_t;

/// A fixed set of ranks that call collectives together: all that a program needs of Capstan.
///
///   auto world = capstan::Communicator::from_environment();
///   world.all_reduce(mine, sums);                            // blocks
///   capstan::Work work = world.start_all_reduce(mine, sums);  // see Work
///
/// Every rank calls the same collectives in the same order with the same counts, types, operations
/// and roots. If not, every rank gets a Mismatch that names the ranks and their calls. (A rank that
/// only sends, like the root of a broadcast, may learn of it a few calls later.) When a peer dies,
/// every rank that still needs the peer gets a PeerLost that names it. After any such error the
/// communicator is unusable: all later calls throw the same error. InvalidArgument leaves the
/// communicator as it was.
///
/// All buffers may lie on devices (CUDA, HIP), also in place, mixed with host memory, in tensors
/// and messages. They are staged through pinned host memory (Settings::pinned_memory bytes of it at
/// a time); operations of the program see host memory. Data to be sent are read when the call is
/// started, on a stream of its own: work on the device that writes the buffer must have finished by
/// then, so synchronise with it first, or make the call in the order of a stream: see streams().
/// When the call has ended, results are on the device, for all streams. A call that has failed or
/// been cancelled gives no results and writes nothing any more. LimitReached (nothing has been
/// started: the others wait for this rank to call again) and SystemError (a copy failed, or took
/// longer than Settings::timeout) concern this rank only. On a machine with a device CUDA may be
/// loaded at any time; HIP, before the communicator is made. Managed and registered memory counts
/// as host memory.
///
/// Operations of a communicator run in the order in which they are started. All functions are
/// thread-safe; only moves and the destructor need the communicator for themselves. Threads that
/// start operations of one communicator at the same time see to it that all ranks start them in one
/// order; give each thread a group of its own (split()) instead. A rank that one thread uses is the
/// fastest. Different worlds are independent.
///
/// A forked child may exec another program, leave its copy alone or destroy it (which tells nobody
/// anything), read buffers of allocate(), and join a world of its own. Any call on the copy, and
/// any wait for its operations, throws InvalidArgument that names the parent. The parent continues,
/// and peers notice nothing: fork() may come at any time, also in callbacks and beside a progress
/// thread.
class Communicator : public AllCollectives<Communicator> {
 public:
  /// Joins the world that a launcher has started: mpirun (Open MPI, MPICH), srun, torchrun or
  /// `capstan run`; alone when there is none. Throws BootstrapError when a rank does not join
  /// within settings.join_timeout, InvalidArgument when the launcher's variables make no sense.
  [[nodiscard]] static Communicator from_environment(
      const Settings& settings = Settings::from_environment());

  /// Joins a world that the program set up itself: one process calls create_unique_id() and passes
  /// the id round by its own means; then each calls this with a rank of its own, 0 .. size-1.
  [[nodiscard]] static Communicator join(const UniqueId& id, int rank, int size,
                                         const Settings& settings = Settings::from_environment());

  /// The same through a store of the program, which all ranks pass with the same prefix; a prefix
  /// serves one communicator. The store is used until this returns, rank 0 last, so that rank 0 may
  /// end a store that it hosts.
  ///
  /// Ranks trust what they read in the store. With Settings::secret they prove to each other that
  /// they know it, and whoever else has access to the store can only keep them from meeting.
  /// Without a secret everybody who can read the store can join and read the data of the ranks, so
  /// use a store that others cannot reach. Throws BootstrapError when a rank does not come in time
  /// (ErrorCode::join_timed_out), when secrets differ (ErrorCode::wrong_secret), and for what the
  /// store throws; InvalidArgument for a null store, or a prefix that a rank `rank` has used
  /// before.
  [[nodiscard]] static Communicator join(std::shared_ptr<Store> store, int rank, int size,
                                         const Settings& settings = Settings::from_environment(),
                                         const std::string& prefix = "capstan");

  /// Joins a communicator that grows, as a new rank: waits for its members to call grow() with the
  /// same place, up to settings.join_timeout, and by a name also for the next time where others are
  /// there first. `rank` is the number here, from the members' number on; -1: the next that is
  /// free. Throws BootstrapError (ErrorCode::wrong_secret where that differs, join_timed_out).
  [[nodiscard]] static Communicator join_growing(
      const MeetingPlace& place, const Settings& settings = Settings::from_environment(),
      int rank = -1);

  /// A world of threads in this process; the n-th communicator is for the n-th thread.
  [[nodiscard]] static std::vector<Communicator> local_world(
      int ranks, const Settings& settings = Settings::from_environment());

  /// One that has been moved from is empty: it may be assigned to and destroyed, all other
  /// functions throw InvalidArgument.
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  /// Does not wait for peers. Peers that still need this rank get a PeerLost. What is pending fails
  /// with Aborted. When exit() destroys the communicator, callbacks of what is pending do not run
  /// any more, and other threads may be in a call: they are held until the process has ended.
  ~Communicator();

  int rank() const;
  int size() const;

  /// A call on untyped memory, for bindings: see Request and Collectives. run() blocks, but for a
  /// call in a stream's order (Request::stream), which streams() makes.
  void run(const Request& request);
  [[nodiscard]] Work start(const Request& request);
  /// run() for a caller that has to look at something else, such as signals, while it waits: polls
  /// for peers as long as run() does before it sleeps. Gives the call that continues if it has not
  /// ended by then.
  [[nodiscard]] std::optional<Work> run_briefly(const Request& request);

  /// A call on tensors, for bindings: see TensorRequest.
  void run(const TensorRequest& request);
  [[nodiscard]] Work start(const TensorRequest& request);

  /// Ends the communicator on all ranks. All that waits in a call of it fails with Aborted and the
  /// reason, here at once and on other ranks within a tenth of a second, and so do later calls; a
  /// peer's call for which all data have arrived already may still succeed. May be called from any
  /// thread at any time, also while other threads wait; not from an operation of the program
  /// (UserOperation). Does nothing after a failure. Concerns this communicator alone, not groups
  /// made from it. Peers see the first 1000 bytes of `reason`.
  void abort(const std::string& reason);
  /// The failure of this communicator: null while there is none. It is the error that this rank or
  /// a peer has met or adopted: PeerLost, TimedOut, Mismatch or Aborted. Waits for nothing and may
  /// be called from any thread at any time. A failure that a call of this rank is still to notice
  /// is found once any rank has: peers look every 20 ms while they wait.
  std::exception_ptr async_error() const;

  /// The calls of this communicator in the order of streams (capstan/async/streams.hpp), those with
  /// a Request::stream among them. The first use is collective: all ranks make it at the same place
  /// in the order of their calls. abort(), async_error() and attach() concern these calls, too.
  /// After the destructor they still end in the background.
  StreamCollectives& streams();

  /// One all_reduce, in place, for many buffers: small ones, like the gradients of many layers,
  /// cost as much as one of their total length. The buffers are packed into one and unpacked again.
  template <Element T>
  void all_reduce_fused(std::span<const std::span<T>> buffers, const Reducer& reducer = {}) {
    run(fused_request(buffers, reducer));
  }
  template <Element T>
  [[nodiscard]] Work start_all_reduce_fused(std::span<const std::span<T>> buffers,
                                            const Reducer& reducer = {}) {
    return start(fused_request(buffers, reducer));
  }

  // Messages between two ranks. As in MPI, messages from one rank with the same tag are received in
  // the order in which they were sent. Receiver and sender use one type (else the receiver gets a
  // Mismatch); a message that is longer than the buffer is Truncated. A rank takes messages in
  // wherever it waits, also in collectives.
  //
  // A message of up to 8 KiB, 64 KiB on one host, is sent at once: its receiver stores it until a
  // receive asks for it, up to Settings::unexpected_messages. A longer one, and any beyond, waits
  // at the sender for its receive, which may read the sender's buffer in place. So, as in MPI, a
  // correct program takes any blocking send to wait for its receive. Work::cancel() of a send that
  // waits, from host memory, may be refused, as the receiver may be reading the buffer. For the
  // same reason a send that no rank receives within the time-out fails the communicator; a receive
  // without a message fails alone.

  /// Returns when the data may be changed again.
  template <ElementRange Data>
  void send(Data&& data, int destination, int tag = 0) {
    transfer(Message::to(destination, data, tag));
  }
  template <LastingRange Data>
  [[nodiscard]] Work start_send(Data&& data, int destination, int tag = 0) {
    return start_transfer(Message::to(destination, data, tag));
  }
  /// Returns when a message has been received. The buffer may be longer than the message.
  template <MutableElementRange Data>
  MessageInfo receive(Data&& buffer, int source = any_source, int tag = any_tag) {
    return transfer(Message::from(source, buffer, tag));
  }
  /// Work::message() gives the source, tag and size of the message.
  template <LastingMutableRange Data>
  [[nodiscard]] Work start_receive(Data&& buffer, int source = any_source, int tag = any_tag) {
    return start_transfer(Message::from(source, buffer, tag));
  }

  /// The same for tensors, which may have strides. Between two tensors the shapes must agree, else
  /// the receiver gets a Mismatch; a receive into a tensor fills all of it.
  void send(const TensorView& data, int destination, int tag = 0) {
    transfer(Message::to(destination, data, tag));
  }
  [[nodiscard]] Work start_send(const TensorView& data, int destination, int tag = 0) {
    return start_transfer(Message::to(destination, data, tag));
  }
  MessageInfo receive(const TensorView& buffer, int source = any_source, int tag = any_tag) {
    return transfer(Message::from(source, buffer, tag));
  }
  [[nodiscard]] Work start_receive(const TensorView& buffer, int source = any_source,
                                   int tag = any_tag) {
    return start_transfer(Message::from(source, buffer, tag));
  }

  /// A message of any length, in memory that is made for it when it is matched: no other thread can
  /// take it in between, as it could between a probe and a receive.
  template <Element T>
  Received<T> receive(int source = any_source, int tag = any_tag) {
    Received<T> received;
    received.info = transfer(Message::any_length(source, received.elements, tag));
    return received;
  }
  /// The same in the background: Work::result<T>() are the elements, for as long as a handle lives.
  template <Element T>
  [[nodiscard]] Work start_receive(int source = any_source, int tag = any_tag) {
    const auto elements = std::make_shared<std::vector<T>>();
    Message message = Message::any_length(source, *elements, tag);
    message.memory = elements;
    return start_transfer(message);
  }
  /// The same for elements of any type: a tensor of one dimension of the message's type.
  Tensor receive_tensor(int source = any_source, int tag = any_tag);

  /// The message that a receive with these arguments would get: probe() waits for it, try_probe()
  /// does not. The data of long messages need not have arrived. Both throw PeerLost when nobody is
  /// left who could send it. `between` is called every 20 ms of the wait, and may end it by
  /// throwing.
  MessageInfo probe(int source = any_source, int tag = any_tag,
                    const std::function<void()>& between = {});
  std::optional<MessageInfo> try_probe(int source = any_source, int tag = any_tag);

  /// Many messages as one operation, which ends with the last of them and fails with the first
  /// failure. All are under way at once: no order of them can deadlock.
  void exchange(const std::vector<Message>& messages) { start_exchange(messages).wait(); }
  [[nodiscard]] Work start_exchange(const std::vector<Message>& messages);
  /// One message. The blocking form is the fastest way for short ones.
  MessageInfo transfer(const Message& message);
  [[nodiscard]] Work start_transfer(const Message& message);

  /// Memory for `count` elements, zeros, that ranks on this host read in place: for buffers of 16
  /// KiB and more that are used again and again. All ranks call it, like a collective, each with a
  /// count of its own, which may be 0. The call takes as long as writing the memory once. The
  /// memory lies near the processor of the calling thread; from 2 MiB on in huge pages, where the
  /// kernel has them. Members of this communicator that share the host see the memory in all of
  /// their communicators; other ranks use it as plain memory. From then on ranks agree before
  /// longer calls of this communicator, and of groups made from it, which buffers are shared: an
  /// agreement costs as much as a barrier. Throws LimitReached on every rank when one of them
  /// cannot have its memory: the communicator stays as it was.
  template <Element T>
  [[nodiscard]] SharedBuffer<T> allocate(std::size_t count) {
    const bool countable = count <= std::numeric_limits<std::size_t>::max() / sizeof(T);
    const std::size_t bytes =
        countable ? count * sizeof(T) : std::numeric_limits<std::size_t>::max();
    return {allocate_bytes(bytes), count};
  }
  /// The same for elements of any type, for bindings: memory of so many bytes, aligned to a cache
  /// line at least. It goes back when the last copy of the pointer goes; see SharedBuffer. Null for
  /// 0 bytes.
  [[nodiscard]] std::shared_ptr<std::byte> allocate_bytes(std::size_t bytes);

  /// Groups the ranks that pass the same colour into a communicator of their own, in the order of
  /// `key` and, among equals, of rank. All ranks call it; a rank that passes a negative colour gets
  /// nothing. Groups are independent: their operations involve their members only, and groups may
  /// overlap with other groups and outlive this communicator.
  [[nodiscard]] std::optional<Communicator> split(int colour, int key = 0);

  /// A communicator of these ranks, in this order. All ranks of this communicator call it with the
  /// same list; ranks that are not in the list get nothing. Different lists are a Mismatch on all
  /// ranks, which shows two of them and leaves the communicator as it was.
  [[nodiscard]] std::optional<Communicator> subgroup(std::span<const int> ranks);

  /// A communicator of these ranks, in this order, which its members alone call: no other rank
  /// takes part, and may be busy or waiting elsewhere. This rank has to be one of them. Groups that
  /// the same ranks form at the same time (in several threads) need different tags, as does another
  /// attempt after one that has failed. Waits for the members as a receive does, and throws
  /// TimedOut or PeerLost with those that do not come; this communicator stays usable after that.
  [[nodiscard]] Communicator create_group(std::span<const int> ranks, int tag = 0);

  /// A communicator of the same ranks whose calls run by these rules (Settings::algorithm), for
  /// example "all_reduce:ring". All ranks call it with the same rules. For algorithms that have
  /// been added (capstan/custom_algorithm.hpp) it proves them for these ranks.
  [[nodiscard]] Communicator with_algorithm(const std::string& rules);

  /// A communicator of the same ranks whose sums keep this promise (Settings::reproducible). All
  /// ranks call it with the same promise.
  [[nodiscard]] Communicator with_reproducible(Reproducible promise);

  /// A communicator of the ranks that are left, in their order, whether this one has failed or not:
  /// after PeerLost, or after abort(), which ends what other ranks wait in. All ranks that live
  /// call it; they agree on who is left even if more die meanwhile. Ranks that have died on a host
  /// with a survivor, and ranks that have destroyed their communicator, are known to be gone.
  /// Others cannot be reached, and may live behind a broken network: then the larger part
  /// continues, or of equal parts that with the lowest rank, and the other gets PeerLost. Throws
  /// TimedOut where a rank that lives does not call it within Settings::timeout, BootstrapError.
  [[nodiscard]] Communicator shrink(const ShrinkOptions& options = {});

  /// A communicator of these ranks, which keep their numbers, and `joiners` new ones, which call
  /// join_growing(). It is a world of its own. All ranks call it; at least one passes the id, or
  /// all of them the same name. It succeeds on all ranks or on none, and this communicator stays
  /// usable either way: throws BootstrapError on all with the ranks that did not come within
  /// Settings::timeout or join_timeout, PeerLost where a member is gone (shrink() first), TimedOut
  /// where one does not call it, Mismatch where ranks pass different arguments.
  [[nodiscard]] Communicator grow(int joiners, const MeetingPlace& place = {});

  /// The rank in the world of this communicator's `rank`.
  int world_rank(int rank) const;
  /// The rank here of a rank of the world, if it is a member.
  std::optional<int> rank_of(int world_rank) const;

  /// From now on `profiler` records every collective of this rank, by its name, the bytes of its
  /// largest buffer, its algorithm and its rank in the world; `tag` says in records which
  /// communicator it was. A call begins when its turn comes, behind those before it, and ends with
  /// its result. Replaces an earlier one; groups that are made later are not attached.
  void attach(const Profiler& profiler, const std::string& tag = {});
  void detach_profiler();

  /// The algorithm and protocol of a call and the reason, or why it would fail, in one line. Does
  /// not touch the memory. Of an all_to_all_v, other ranks are taken to send as much as this one.
  std::string explain(const Request& request) const;
  /// Adds what the autotuner has measured here to a profile, for later runs; `file` empty: the
  /// user's (see Settings::profile). Rank 0 writes, unless ranks are threads. Returns how many
  /// kinds of calls. Throws SystemError or, for a bad file, InvalidArgument.
  std::size_t save_profile(const std::string& file = {}) const;
  /// How long such a call is expected to take, alone and on all ranks: by the profile or the model;
  /// duration::max() where neither knows. The request's memory is not touched.
  std::chrono::nanoseconds predicted_time(const Request& request) const;
  /// The same for a message to or from a rank. Throws InvalidArgument if there is no such rank.
  std::chrono::nanoseconds predicted_time(int peer, Bytes bytes) const;
  /// A report of what this rank does and knows of the others now, for people: operations that have
  /// not ended, the ranks that they wait for, in which step and since when; what every rank has
  /// published about itself; and which ranks keep this one waiting. Any thread may call it, also
  /// while another one waits in a call, and after a failure.
  std::string report() const;
  /// The same as JSON. The members of "entries" have the names of PyTorch's flight recorder where
  /// these fit (collective_seq_id, profiling_name, state, is_p2p).
  std::string report_json() const;

  /// Just the algorithm's name.
  std::string algorithm(const Request& request) const;
  /// Whether the autotuner has decided for calls like this one, with buffers of this kind on all
  /// ranks (see Settings::autotune), and expects the decision to stand: of calls from 128 KiB on
  /// once their buffers had time to move into huge pages. The same on all ranks when nothing is
  /// pending. For benchmarks, to know when to start.
  bool is_settled(const Request& request) const;

 private:
  friend class StreamCollectives;
  class Impl;
  /// Ends an Impl; in a forked child, only drops it.
  struct Dispose {
    void operator()(Impl* impl) const noexcept;
    static void drop(Impl* impl, int thread) noexcept;
    static void destroy_dropped() noexcept;
    static std::atomic<Impl*>& dropped();
  };
  explicit Communicator(std::unique_ptr<Impl> impl);
  static Communicator begun(Communicator world);
  const Settings& settings() const;
  /// Whether a network card may move a message on a device itself.
  bool may_stay_on_device(const Message& message) const;
  /// Counts the messages of an exchange that the host copies from or to a device.
  using StagedCount = std::shared_ptr<std::atomic<std::size_t>>;
  Work start_exchange(std::span<const Message> messages, const StagedCount& staged);
  bool is_listed(const char* call, std::span<const int> ranks) const;
  std::optional<Communicator> form(const std::vector<Rank>& members, Purpose purpose);

  /// A call with the transfers before and after it.
  struct Prepared;
  template <Element T>
  static TensorRequest fused_request(std::span<const std::span<T>> buffers,
                                     const Reducer& reducer) {
    TensorRequest request;
    request.reducer = reducer;
    for (const std::span<T>& buffer : buffers)
      request.inputs.emplace_back(
          buffer.data(), *data_type_of<T>,
          std::vector<std::int64_t>{static_cast<std::int64_t>(buffer.size())});
    return request;
  }
  Prepared prepare(const Request& request) const;
  Prepared prepare(const TensorRequest& request) const;
  Prepared prepare_fused(const TensorRequest& request) const;
  static MessageInfo wait_for_message(const Work& work);
  void run_queued(Prepared prepared);
  Work start_queued(Prepared prepared, const Request* request = nullptr);
  void run_checked(const Request& request);

  std::unique_ptr<Impl, Dispose> impl_;
};

}  // namespace CAPSTAN_EXPORT capstan
