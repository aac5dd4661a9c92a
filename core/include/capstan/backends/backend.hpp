// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "capstan/backends/config.hpp"
#include "capstan/backends/errors.hpp"
#include "capstan/export.hpp"
#include "capstan/message.hpp"
#include "capstan/owning_tensor.hpp"
#include "capstan/request.hpp"
#include "capstan/tensor.hpp"
#include "capstan/work.hpp"

namespace CAPSTAN_EXPORT capstan {

/// The capabilities of a backend. Calls that go beyond them throw NotSupported.
struct Capabilities {
  bool asynchronous = false;     ///< the start_ forms
  bool point_to_point = false;   ///< send and receive
  bool probe = false;            ///< probe, and receive of a message whose size is not known
  bool any_source = false;       ///< receive and probe with any_source and any_tag
  bool tags = false;             ///< messages with tags other than 0
  bool deadline = false;         ///< operations that take longer than the timeout fail
  bool abort = false;            ///< abort() ends what other ranks wait for
  bool user_operations = false;  ///< Reducer::of and Reducer::premultiplied_sum
  bool host_memory = true;       ///< tensors in the host's memory
  bool device_memory = false;    ///< tensors on devices
  bool subgroups = false;        ///< subgroup()
};

/// The part of a backend that starts operations in the background. Operations of one rank run in
/// the order in which they are started; a call that waits may meet one that others have started.
class AsynchronousPart {
 public:
  /// Runs after the library has finished the operation, and before the operation counts as
  /// completed. May be empty.
  using Finish = std::function<void()>;

  virtual ~AsynchronousPart() = default;
  [[nodiscard]] virtual Work start(const Request& request, Finish finish) = 0;
  /// Throws NotSupported unless a backend overrides it.
  [[nodiscard]] virtual Work start(const Message& message, Finish finish);
};

/// The part of a backend that sends messages between two ranks.
class PointToPointPart {
 public:
  virtual ~PointToPointPart() = default;
  /// Returns when a send's data may be changed again, or when a receive has its message.
  virtual MessageInfo run(const Message& message) = 0;
  /// The message that a receive would get, if there is one; waits for nothing.
  virtual std::optional<MessageInfo> probe(int source, int tag) = 0;
  /// Receives a message of any size into a new tensor of one dimension.
  virtual Tensor receive(DataType type, int source, int tag) = 0;
};

/// Collectives and messages over any library: the interface that a program is written against when
/// it leaves open whether Capstan, MPI, NCCL, RCCL or a mock carries it out. create_backend() makes
/// one by name, make_backend() one of a Communicator, which itself is faster for small calls.
///
/// All ranks make the same calls in the same order. Tensors in the host's memory may have strides,
/// those on devices are dense. A tensor with elements and no memory, shapes that do not fit
/// together, a root that is no rank and types that an operation is not defined for throw
/// InvalidArgument before anything is sent, and so does every call after close(). The text names
/// the rank, the call and the argument. Functions with one view work in place; with two, input and
/// output are the same memory or disjoint. Functions that take a Tensor return a new one.
///
/// A backend is used by one thread at a time. Works may be waited for by other threads, where the
/// backend's library allows it: see MpiConfig::thread_level.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  /// Closes.
  virtual ~Backend() = default;

  /// "mock", "capstan", "mpi", "nccl", "rccl".
  virtual std::string_view name() const = 0;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  /// The device whose memory is used by default.
  virtual Device device() const { return {}; }
  /// From the constructor until close().
  virtual bool is_initialized() const = 0;
  virtual Capabilities capabilities() const = 0;
  /// Gives everything back; waits for no other rank where the library does not. May be called
  /// again. Peers that still need this rank get an error, where the library notices.
  virtual void close() = 0;

  void all_reduce(const TensorView& data, const Reducer& reducer = {});
  void all_reduce(const TensorView& input, const TensorView& output, const Reducer& reducer = {});
  Tensor all_reduce(const Tensor& input, const Reducer& reducer = {});
  [[nodiscard]] Work start_all_reduce(const TensorView& data, const Reducer& reducer = {});
  [[nodiscard]] Work start_all_reduce(const TensorView& input, const TensorView& output,
                                      const Reducer& reducer = {});

  /// The output is p times as long as the input along `dimension`, for p ranks.
  void all_gather(const TensorView& input, const TensorView& output, int dimension = 0);
  Tensor all_gather(const Tensor& input, int dimension = 0);
  [[nodiscard]] Work start_all_gather(const TensorView& input, const TensorView& output,
                                      int dimension = 0);

  /// The input is p times as long as the output along `dimension`.
  void reduce_scatter(const TensorView& input, const TensorView& output,
                      const Reducer& reducer = {}, int dimension = 0);
  Tensor reduce_scatter(const Tensor& input, const Reducer& reducer = {}, int dimension = 0);
  [[nodiscard]] Work start_reduce_scatter(const TensorView& input, const TensorView& output,
                                          const Reducer& reducer = {}, int dimension = 0);

  void broadcast(const TensorView& data, int root);
  [[nodiscard]] Work start_broadcast(const TensorView& data, int root);

  /// Only the root's output is written.
  void reduce(const TensorView& input, const TensorView& output, int root,
              const Reducer& reducer = {});
  /// At the root the result, elsewhere a copy of the input.
  Tensor reduce(const Tensor& input, int root, const Reducer& reducer = {});
  [[nodiscard]] Work start_reduce(const TensorView& input, const TensorView& output, int root,
                                  const Reducer& reducer = {});

  void barrier();
  [[nodiscard]] Work start_barrier();

  void send(const TensorView& data, int destination, int tag = 0);
  [[nodiscard]] Work start_send(const TensorView& data, int destination, int tag = 0);
  /// The message has as many bytes as the tensor: a longer one is Truncated, a shorter one a
  /// Mismatch.
  MessageInfo receive(const TensorView& buffer, int source, int tag = 0);
  [[nodiscard]] Work start_receive(const TensorView& buffer, int source, int tag = 0);
  /// A message of any size, as a tensor of one dimension.
  Tensor receive(DataType type, int source, int tag = 0);
  /// A new tensor of the type and shape of another.
  Tensor receive_like(const Tensor& like, int source, int tag = 0);
  /// The message that a receive would get, if there is one; waits for nothing.
  std::optional<MessageInfo> probe(int source, int tag = 0);

  /// A backend of these ranks, in this order. All ranks call it with the same list; a rank that is
  /// not in the list gets null.
  [[nodiscard]] std::unique_ptr<Backend> subgroup(std::span<const int> ranks);
  /// Ends the backend on all ranks: what waits fails with Aborted and the reason.
  virtual void abort(const std::string& reason);

  /// A call on untyped, contiguous memory; what the functions above make. run() blocks. Collectives
  /// beyond those above may be NotSupported.
  void run(const Request& request);
  [[nodiscard]] Work start(const Request& request);

  /// The parts of a backend. A null one says that the backend cannot do it.
  virtual AsynchronousPart* asynchronous() { return nullptr; }
  virtual PointToPointPart* point_to_point() { return nullptr; }

 protected:
  /// `request` has been checked. By default, start and wait.
  virtual void run_checked(const Request& request);
  /// `ranks` has been checked.
  virtual std::unique_ptr<Backend> make_subgroup(std::span<const int> ranks);

  /// The runtime by which tensors on this device are staged through host memory; null, as by
  /// default, if they are on the host or are passed on as they are.
  virtual std::shared_ptr<class DeviceRuntime> staging_for(const Device& device) const;

  /// For backends: what is missing, "user operations", and what to do instead.
  [[noreturn]] void refuse(const std::string& what, const std::string& remedy) const;

 private:
  AsynchronousPart& require_asynchronous(std::string_view call);
  PointToPointPart& require_point_to_point(std::string_view call);
  void require_open(std::string_view call) const;
  void require_possible(std::string_view call, const TensorView& tensor) const;
  Message message_of(bool sends, const TensorView& tensor, int peer, int tag) const;
  void require_peer(std::string_view call, bool sends, int peer, int tag) const;
  void require_filled(const TensorView& buffer, const MessageInfo& info) const;
  class BackendCall prepare(Collective collective, const TensorView& input,
                            const TensorView& output, const Reducer& reducer = {}, int root = 0,
                            int dimension = 0) const;
  void run_call(const class BackendCall& call);
  Work start_call(const class BackendCall& call);
};

}  // namespace CAPSTAN_EXPORT capstan
