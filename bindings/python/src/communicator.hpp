// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "array.hpp"
#include "capstan/communicator.hpp"
#include "capstan/observe/profiler.hpp"
#include "method.hpp"
#include "work.hpp"

namespace capstan::python {

/// A communicator with what Python adds: calls that start an operation or wait for it, and messages
/// that are collected into one exchange.
class Endpoint {
 public:
  explicit Endpoint(Communicator communicator);
  Endpoint(Endpoint&&) = default;
  ~Endpoint() { close(); }

  /// The interpreter ends: callbacks end first, or those that wait are made to.
  static void end_callbacks();

  /// Throws InvalidArgument after close(). Only with the GIL: see without_gil().
  Communicator& communicator() const;
  /// For threads that may use it while another one closes this.
  const std::shared_ptr<Communicator>& shared() const;
  /// Leaves: peers that still need this rank get a PeerLost. Where other threads are in calls,
  /// these end, and the communicator with them. May be called twice.
  void close();
  bool is_closed() const { return !communicator_; }

  /// Records all collectives from now on, those by other algorithms, too.
  void attach(const Profiler& profiler, const std::string& tag);
  void detach_profiler();

  /// This communicator, or one of the same ranks that runs this algorithm of a collective: a name,
  /// or what has one. None: this one. The first use of an algorithm makes the other communicator,
  /// so all ranks pass the same.
  Endpoint& by(Collective collective, py::handle algorithm) {
    return algorithm.is_none() ? *this : twin(collective, algorithm);
  }

  /// Carries out a call on `arrays`. Returns `result`, or a Work that will give it, and has them.
  py::object call(const Request& request, std::vector<Array>& arrays, py::object result, bool wait);
  /// The same for whatever starts an operation: `start(communicator)`, which may still look at
  /// `arrays`.
  template <class Start>
  py::object started(Start start, std::vector<Array>&& arrays, py::object result, bool wait) {
    Work work = without_gil(start);
    if (!wait) return py::cast(pending(std::move(work), std::move(result), std::move(arrays)));
    wait_interruptibly(work, arrays);
    return result;
  }

  /// `use(communicator)` while other threads run Python, one of which may close this meanwhile.
  template <class Use>
  auto without_gil(Use use) const {
    std::shared_ptr<Communicator> held = shared();
    const ReleasedGil others_run;
    const auto world = std::move(held);  // the last to hold it destroys it without the GIL
    return use(*world);
  }

  /// Carries out a call in several steps, which makes something of all ranks: `make(communicator)`.
  /// Such a call cannot be cancelled, so Ctrl-C aborts the communicator.
  template <class Make>
  auto form(const std::string& call, Make make) {
    return run_interruptibly(
        call, [world = shared(), make] { return make(*world); },
        [world = shared(), call] {
          world->abort("Ctrl-C has ended " + call + " at rank " + std::to_string(world->rank()) +
                       ": make another communicator");
        });
  }

  /// Sends or receives, or puts the message into the group that is open.
  py::object transfer(const Message& message, Array& array, Wait wait);
  bool is_grouping() const { return grouping_; }
  void open_group();
  py::object close_group(Wait wait);
  void drop_group();

 private:
  py::object agree(const Request& request, std::vector<Array>& arrays, py::object result,
                   bool wait);
  py::object exchange(std::vector<Message> messages, std::vector<Array> arrays, Wait wait);
  Endpoint& twin(Collective collective, py::handle algorithm);

  std::shared_ptr<Communicator> communicator_;
  std::map<std::string, std::unique_ptr<Endpoint>> twins_;    // by rule
  std::optional<std::pair<Profiler, std::string>> profiler_;  // and the tag
  std::set<std::pair<DataType, ReduceOp>> in_streams_;        ///< of which ranks have agreed
  bool has_streams_ = false;                                  ///< an exchange has been in one
  bool grouping_ = false;
  std::vector<Message> group_;
  std::vector<Array> group_arrays_;
};

/// Throws InvalidArgument for bytes that are no unique id.
MeetingPlace place_of(const std::optional<std::string>& id, const std::string& name,
                      const std::string& secret);

/// A name such as "max", a Reducer, or None: the sum.
Reducer reducer_of(py::handle op);

}  // namespace capstan::python
