// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bindings/mpi/arguments.hpp"
#include "bindings/mpi/operations.hpp"
#include "capstan/message.hpp"
#include "capstan/request.hpp"

namespace capstan::mpi {

/// A rank's place in a communicator.
struct Place {
  int rank = 0, size = 1;
};

/// One call of MPI as Capstan runs it: a collective of Capstan, or messages where ranks know only
/// their own counts. Data whose elements do not lie one after another are packed into memory of its
/// own, and unpacked by finish(). What a rank does here never decides whether the call is served.
class Transfer {
 public:
  /// The program's buffers are used from here on. `reduction`: of a call that reduces.
  Transfer(const Arguments& arguments, const Reduction* reduction, Place place);
  Transfer(Transfer&&) = default;

  bool is_exchange() const { return is_exchange_; }
  const Request& request() const { return request_; }
  const std::vector<Message>& messages() const { return messages_; }
  /// The bytes of the larger of this rank's two sides.
  std::size_t bytes() const;
  /// The call has succeeded: unpacks results. Throws Truncated if this rank's buffer has no room
  /// for them.
  void finish() const;

 private:
  /// Elements in a program's buffer.
  struct Run {
    void* start = nullptr;
    MPI_Count count = 0;
    Layout layout{};

    std::size_t bytes() const { return static_cast<std::size_t>(count) * layout.size; }
  };
  struct Result {
    Run to;
    const std::byte* from;
  };

  void describe(const Arguments& a, const Reduction* by);
  void separate();
  std::size_t bytes_of(Elements count) const;
  void broadcast(const Arguments& a);
  void reduction(const Arguments& a, const Reduction& by);
  void all_gather(const Arguments& a);
  void all_gather_v(const Arguments& a);
  void gather(const Arguments& a);
  void scatter(const Arguments& a);
  void all_to_all(const Arguments& a);
  void gather_v(const Arguments& a);
  void scatter_v(const Arguments& a);
  void all_to_all_v(const Arguments& a);

  Run run(const Side& side, int blocks = 1) const;
  static Run block(const Side& side, int peer);
  std::byte* memory(std::size_t bytes);
  const std::byte* reading(const Run& run);
  std::byte* writing(const Run& run);
  void gathered(const Side& receive, const Side& send);
  void gathered_apart(const Run& own, const Run& sent);
  void input(const void* data, std::size_t bytes);
  void output(void* data, std::size_t bytes);
  void send(int peer, const Run& run);
  void receive(int peer, const Run& run);
  void copy(const Run& from, const Run& to);

  const Place place_;
  bool is_exchange_ = false;
  Request request_;
  std::vector<Message> messages_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  std::vector<Result> results_;
  std::string complaint_;
};

}  // namespace capstan::mpi
