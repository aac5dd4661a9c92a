// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "capstan/communicator.hpp"
#include "capstan/message.hpp"
#include "capstan/owning_tensor.hpp"

namespace capstan {

/// The state that the mock backends of one world share. Capstan's own engine computes the values,
/// when the last rank has made its call. Thread-safe.
class MockWorld : public std::enable_shared_from_this<MockWorld> {
 public:
  struct Options {
    int size;
    std::chrono::milliseconds timeout;
    std::chrono::milliseconds delay;  ///< an operation ends so long after its last rank's call
  };
  /// One rank's part of a collective.
  class Part;
  /// A rank's receive.
  class Mailed;

  MockWorld(std::string id, const Options& options) : id_(std::move(id)), options_(options) {}

  /// The world of this name and size that has room for the rank; a new one if there is none.
  /// Throws InvalidArgument if the rank is taken.
  static std::shared_ptr<MockWorld> join(const std::string& id, int rank, const Options& options);

  /// No two worlds of a process have the same.
  const std::string& id() const { return id_; }
  const Options& options() const { return options_; }

  /// A copy of the rank's input takes part; its output is written by a later test of the part.
  std::unique_ptr<Part> call(int rank, const Request& request);
  void send(int rank, const Message& message);
  std::optional<MessageInfo> probe(int rank, int source, int tag);
  std::optional<Tensor> take(int rank, DataType type, int source, int tag, MessageInfo& info);
  void abort(const std::string& reason);
  void leave(int rank);
  /// The number of groups that this rank has made of the same list. Each group has a world of its
  /// own, which is found by the list and this number.
  int next_group(int rank, const std::vector<int>& ranks);

 private:
  using Clock = std::chrono::steady_clock;
  /// One collective, for all ranks.
  struct Call {
    std::vector<std::optional<Request>> requests;
    std::vector<Tensor> inputs, outputs;
    std::vector<std::exception_ptr> errors;
    int arrived = 0, left = 0;
    Clock::time_point ready{};
  };
  struct Mail {
    MessageInfo info;
    DataType type;
    Tensor data;
    Clock::time_point ready;
  };
  bool test(std::uint64_t number, int rank);
  std::string missing(std::uint64_t number) const;
  void compute(Call& call);
  void run(Call& call, int rank);
  std::deque<Mail>::iterator find_mail(int rank, int source, int tag);
  void require_whole(int rank) const;

  const std::string id_;
  const Options options_;
  mutable std::mutex mutex_;  // of all that follows
  std::set<int> present_, gone_;
  std::map<int, std::uint64_t> made_;  // the number of calls that a rank has made
  std::map<std::uint64_t, Call> calls_;
  std::map<int, std::deque<Mail>> mail_;
  std::map<std::pair<int, std::vector<int>>, int> groups_;
  std::optional<std::string> aborted_;
  std::vector<Communicator> engine_;
};

}  // namespace capstan
