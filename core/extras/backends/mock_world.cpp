// SPDX-License-Identifier: Apache-2.0
#include "core/extras/backends/mock_world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "core/extras/backends/backend_call.hpp"
#include "core/extras/backends/mock_operations.hpp"

namespace capstan {
namespace {

std::size_t at(int rank) {
  return static_cast<std::size_t>(rank);
}

Tensor copy_of(DataType type, const void* data, Elements count) {
  Tensor tensor{type, {static_cast<std::int64_t>(count.value())}};
  if (count > Elements{0}) std::memcpy(tensor.data(), data, tensor.bytes().value());
  return tensor;
}

struct Worlds {
  std::mutex mutex;
  std::map<std::pair<std::string, int>, std::weak_ptr<MockWorld>> all;
};
Worlds& worlds() {
  static auto& worlds = *new Worlds;
  return worlds;
}

}  // namespace

std::shared_ptr<MockWorld> MockWorld::join(const std::string& id, int rank,
                                           const Options& options) {
  const std::lock_guard lock{worlds().mutex};
  std::erase_if(worlds().all, [](const auto& entry) { return entry.second.expired(); });
  auto& entry = worlds().all[{id, options.size}];
  auto world = entry.lock();
  if (world) {
    const std::lock_guard inside{world->mutex_};
    if (world->present_.contains(rank))
      throw InvalidArgument(
          fmt::format("mock: rank {} of {} of the world '{}' exists already: close it, or pass "
                      "another unique_id",
                      rank, options.size, id));
    if (!world->gone_.empty()) world = nullptr;  // that world is at its end
  }
  static int generation = 0;
  if (!world)
    entry = world = std::make_shared<MockWorld>(fmt::format("{}#{}", id, ++generation), options);
  const std::lock_guard inside{world->mutex_};
  world->present_.insert(rank);
  return world;
}

std::unique_ptr<MockWorld::Part> MockWorld::call(int rank, const Request& request) {
  const std::lock_guard lock{mutex_};
  const std::uint64_t number = made_[rank]++;
  Call& call = calls_[number];
  const std::size_t p = at(options_.size);
  if (call.requests.empty()) {
    call.requests.resize(p);
    call.inputs.resize(p);
    call.outputs.resize(p);
    call.errors.resize(p);
  }
  const auto [input, output] = lengths(request, rank, options_.size);
  call.inputs[at(rank)] = copy_of(request.type, request.input, input);
  call.outputs[at(rank)] = copy_of(request.type, request.output, output);
  call.requests[at(rank)] = request;
  if (++call.arrived == options_.size) {
    if (engine_.empty()) {
      Settings settings;
      settings.timeout = options_.timeout;
      settings.autotune = false;
      engine_ = Communicator::local_world(options_.size, settings);
    }
    compute(call);
    call.ready = Clock::now() + options_.delay;
  }
  return std::make_unique<Part>(shared_from_this(), number, rank);
}

void MockWorld::compute(Call& call) {
  std::vector<std::jthread> threads;
  for (int rank = 1; rank < options_.size; ++rank)
    threads.emplace_back([this, &call, rank] { run(call, rank); });
  run(call, 0);
}

/// One rank's part of a call, on a thread of its own.
void MockWorld::run(Call& call, int rank) {
  Request request = *call.requests[at(rank)];
  request.input = call.inputs[at(rank)].data();
  request.output = call.outputs[at(rank)].data();
  try {
    engine_[at(rank)].run(request);
  } catch (const std::exception& error) {
    call.errors[at(rank)] = std::current_exception();
    engine_[at(rank)].abort(error.what());
  }
}

bool MockWorld::test(std::uint64_t number, int rank) {
  const std::lock_guard lock{mutex_};
  Call& call = calls_.at(number);
  if (call.arrived < options_.size) {
    require_whole(rank);
    return false;
  }
  if (Clock::now() < call.ready) return false;
  const std::exception_ptr error = call.errors[at(rank)];
  const Request& request = *call.requests[at(rank)];
  const Tensor& output = call.outputs[at(rank)];
  if (!error && output.count() > Elements{0})
    std::memcpy(request.output, output.data(), output.bytes().value());
  if (++call.left == options_.size) calls_.erase(number);
  if (error) std::rethrow_exception(error);
  return true;
}

void MockWorld::require_whole(int rank) const {
  if (aborted_) throw Aborted(fmt::format("rank {}: mock: {}", rank, *aborted_));
  if (!gone_.empty())
    throw PeerLost(Rank{*gone_.begin()},
                   fmt::format("rank {}: mock: rank {} has closed its backend and never makes this "
                               "call",
                               rank, *gone_.begin()));
}

std::string MockWorld::missing(std::uint64_t number) const {
  const std::lock_guard lock{mutex_};
  std::vector<int> absent;
  for (int rank = 0; rank < options_.size; ++rank)
    if (!calls_.at(number).requests[at(rank)]) absent.push_back(rank);
  return fmt::format(
      "rank {} has not called it; one thread that plays several ranks starts all of "
      "them (start_...) before it waits",
      fmt::join(absent, ", "));
}

void MockWorld::send(int rank, const Message& message) {
  const std::lock_guard lock{mutex_};
  require_whole(rank);
  Tensor data = copy_of(message.type, message.data, message.count);
  const Bytes size = data.bytes();
  mail_[message.peer].push_back(
      {{rank, message.tag, size}, message.type, std::move(data), Clock::now() + options_.delay});
}

std::deque<MockWorld::Mail>::iterator MockWorld::find_mail(int rank, int source, int tag) {
  std::deque<Mail>& mail = mail_[rank];
  const auto found = std::ranges::find_if(mail, [&](const Mail& each) {
    return (source == any_source || source == each.info.source) &&
           (tag == any_tag || tag == each.info.tag);
  });
  return found != mail.end() && found->ready <= Clock::now() ? found : mail.end();
}

std::optional<MessageInfo> MockWorld::probe(int rank, int source, int tag) {
  const std::lock_guard lock{mutex_};
  const auto found = find_mail(rank, source, tag);
  if (found != mail_[rank].end()) return found->info;
  require_whole(rank);
  return {};
}

std::optional<Tensor> MockWorld::take(int rank, DataType type, int source, int tag,
                                      MessageInfo& info) {
  const std::lock_guard lock{mutex_};
  const auto found = find_mail(rank, source, tag);
  if (found == mail_[rank].end()) {
    if (mail_[rank].empty()) require_whole(rank);
    return {};
  }
  const Mail mail = std::move(*found);
  mail_[rank].erase(found);
  if (mail.type != type)
    throw Mismatch(
        fmt::format("rank {}: mock: receive: the message from rank {} with tag {} is of "
                    "{}, not of {}",
                    rank, mail.info.source, mail.info.tag, name_of(mail.type), name_of(type)));
  info = mail.info;
  return mail.data;
}

void MockWorld::abort(const std::string& reason) {
  const std::lock_guard lock{mutex_};
  if (!aborted_) aborted_ = reason;
}

void MockWorld::leave(int rank) {
  const std::lock_guard lock{mutex_};
  present_.erase(rank);
  gone_.insert(rank);
}

int MockWorld::next_group(int rank, const std::vector<int>& ranks) {
  const std::lock_guard lock{mutex_};
  return groups_[{rank, ranks}]++;
}

bool MockWorld::Part::test() {
  return world_->test(number_, rank_);
}
std::string MockWorld::Part::missing() const {
  return world_->missing(number_);
}

bool MockWorld::Mailed::test() {
  MessageInfo info{};
  const auto data = world_->take(rank_, message_.type, message_.peer, message_.tag, info);
  if (!data) return false;
  if (data->count() > message_.count)
    throw Truncated(fmt::format("rank {}: mock: {}: the message has {} elements", rank_,
                                describe(message_), data->count().value()));
  if (data->count() > Elements{0}) std::memcpy(message_.data, data->data(), data->bytes().value());
  info_ = info;
  return true;
}

}  // namespace capstan
