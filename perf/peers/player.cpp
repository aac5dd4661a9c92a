#include "perf/peers/player.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "core/base/file_descriptor.hpp"
#include "core/cli/against/protocol.hpp"
#include "core/cli/perf/data.hpp"
#include "core/ir/error.hpp"
#include "core/runtime/bootstrap/launch.hpp"
#include "topology/machine.hpp"

namespace capstan::peers {
namespace {

using cli::against::Answer;
using cli::against::Hello;
using cli::against::Order;

FileDescriptor connect_to_referee() {
  const char* name = std::getenv(cli::against::socket_variable);
  if (!name)
    throw InvalidArgument("this program is started by `capstan perf --against`: see its --help");
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::size_t length = std::min(std::strlen(name), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name, length);
  FileDescriptor socket{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address),
                static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length)) != 0)
    throw SystemError(fmt::format("cannot reach the referee: {}", std::strerror(errno)));
  return socket;
}

/// The buffers of one cell, as any program allocates them.
class Buffers {
 public:
  Buffers(const cli::Cell& cell, int rank, int size) {
    const BufferLengths lengths = cell.contract(size).lengths(rank);
    const Elements most = cell.contract(size).extent();
    input_.resize(std::max<std::size_t>(lengths.input.value(), 1), 1.0f);
    output_.resize(std::max<std::size_t>(cell.in_place ? most.value() : lengths.output.value(), 1));
  }
  float* input() { return input_.data(); }
  float* output() { return output_.data(); }

 private:
  std::vector<float> input_, output_;
};

class Player {
 public:
  explicit Player(const std::function<std::unique_ptr<Library>()>& start)
      : start_(start), socket_(connect_to_referee()) {
    const char* player = std::getenv(cli::against::player_variable);
    const Hello hello{player ? std::atoi(player) : -1, detect_launch(process_environment()).rank};
    static_cast<void>(!::send(socket_.get(), &hello, sizeof hello, MSG_NOSIGNAL));
  }

  void run() {
    Order order;
    while (::recv(socket_.get(), &order, sizeof order, 0) == sizeof order) {
      Answer answer;
      try {
        obey(order, answer);
      } catch (const std::exception& error) {
        answer.failed = 1;
        std::strncpy(answer.text, error.what(), sizeof answer.text - 1);
      }
      if (::send(socket_.get(), &answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer) return;
    }
  }

 private:
  void obey(const Order& order, Answer& answer) {
    switch (order.kind) {
      case Order::Kind::begin:
        if (order.processors[0] != '\0') bind_this_thread(CpuSet::parse(order.processors));
        peer_ = start_();
        return;
      case Order::Kind::prepare:
        return prepare(order);
      case Order::Kind::check:
        answer.wrong = check();
        return;
      case Order::Kind::time:
        answer.seconds = time(order.calls);
        return;
      case Order::Kind::release:
        call_ = nullptr;
        buffers_.reset();
        return;
    }
    throw InvalidArgument("the referee gave an unknown order");
  }

  void prepare(const Order& order) {
    cell_ = {.collective = static_cast<Collective>(order.collective)};
    cell_.shape.count = Elements{order.count};
    cell_.in_place = cell_.collective == Collective::broadcast;
    buffers_.emplace(cell_, peer_->rank(), peer_->size());
    call_ = peer_->prepare(cell_, buffers_->input(), buffers_->output());
    if (!call_) throw InvalidArgument("it has no such collective");
  }

  std::uint64_t check() {
    if (!peer_->computes()) return call_(), 0;
    const Contract contract = cell_.contract(peer_->size());
    const cli::TestData data{cell_.type, cell_.op, contract, peer_->size()};
    data.spoil(buffers_->output(), contract.lengths(peer_->rank()).output);
    data.fill(cell_.in_place ? buffers_->output() : buffers_->input(), peer_->rank());
    call_();
    return data.count_wrong(buffers_->output(), peer_->rank());
  }

  /// Seconds for all calls, after a warm-up that brings caches and connections back.
  double time(std::uint32_t calls) {
    for (std::uint32_t i = 0; i < 1 + calls / 8; ++i) call_();
    peer_->barrier();
    const auto start = std::chrono::steady_clock::now();
    for (std::uint32_t i = 0; i < calls; ++i) call_();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  const std::function<std::unique_ptr<Library>()>& start_;
  FileDescriptor socket_;
  std::unique_ptr<Library> peer_;
  cli::Cell cell_;
  std::optional<Buffers> buffers_;
  Library::Call call_;
};

}  // namespace

int play(const std::function<std::unique_ptr<Library>()>& start) {
  try {
    Player{start}.run();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}

}  // namespace capstan::peers
