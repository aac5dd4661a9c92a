// SPDX-License-Identifier: Apache-2.0
#include "bindings/nccl/comm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bindings/nccl/cuda.hpp"

namespace capstan::nccl {
namespace {

/// A handle is a number in the type of a pointer, and nothing lies there. A number is given once,
/// so that a call with a handle that the program has freed is an error, whatever was made since.
struct Handles {
  std::mutex mutex;
  std::uintptr_t last = 0;
  std::unordered_map<ncclComm_t, std::shared_ptr<Comm>> open;
};

/// Handles look aligned, as some programs expect of pointers.
constexpr std::uintptr_t between_handles = alignof(std::max_align_t);

[[noreturn]] void throw_unknown(ncclComm_t handle) {
  throw InvalidArgument(handle ? "the communicator has been freed, or was never made"
                               : "the communicator is null");
}

/// Never destroyed, as programs free communicators in any order at their end.
Handles& handles() {
  static auto* const all = new Handles;
  return *all;
}

/// The facts of a rank. One that sees no devices could never make the others' calls.
struct Facts {
  std::uint64_t process = 0;  ///< that no other one has
  std::int32_t device = 0, sees_devices = 0;

  bool shares_device(const Facts& other) const {
    return process == other.process && device == other.device;
  }
};

std::uint64_t own_process() {
  static const std::uint64_t number = [] {
    std::random_device random;
    return std::uint64_t{random()} << 32 | random();
  }();
  return number;
}

Comm::Devices agree(Communicator& world, int device) {
  std::vector<Facts> all(static_cast<std::size_t>(world.size()));
  const Facts own{own_process(), device, look_for_devices() ? 1 : 0};
  world.all_gather(std::as_bytes(std::span{&own, 1}), std::as_writable_bytes(std::span{all}));
  Comm::Devices agreed{.has_streams = true};
  for (auto one = all.begin(); one != all.end(); ++one) {
    agreed.has_streams = agreed.has_streams && one->sees_devices != 0;
    agreed.is_shared = agreed.is_shared || std::any_of(all.begin(), one, [&](const Facts& each) {
                         return each.shares_device(*one);
                       });
  }
  return agreed;
}

}  // namespace

void Comm::make(const Make& make, const std::optional<Devices>& known) {
  try {
    auto made = std::make_unique<Communicator>(make());
    Communicator& world = *made;
    {
      const std::scoped_lock lock{mutex_};
      if (aborted_) world.abort("the communicator was aborted while it was being made");
      world_ = std::move(made);
    }
    devices_ = known ? *known : agree(world, options_.device);
  } catch (...) {
    fail(std::current_exception());
  }
  making_ = false;
}

void Comm::open(Make how, bool in_background, std::optional<Devices> known) {
  making_ = true;
  if (!in_background) return make(how, known);
  std::thread{[self = shared_from_this(), how = std::move(how), known] {
    self->make(how, known);
  }}.detach();
}

StreamCollectives& Comm::streams() {
  StreamCollectives& made = world().streams();
  streams_ = &made;
  return made;
}

bool Comm::is_idle() const {
  StreamCollectives* const streams = streams_;
  return !streams || streams->is_idle();
}

ncclResult_t Comm::finalize() {
  flush();
  finalized_ = true;
  while (options_.blocking && !is_idle())
    std::this_thread::sleep_for(std::chrono::microseconds{50});
  return is_idle() ? ncclSuccess : ncclInProgress;
}

Communicator& Comm::world() {
  if (making_)
    throw InvalidArgument(
        "this communicator is still being made: wait until ncclCommGetAsyncError no longer gives "
        "ncclInProgress");
  const std::scoped_lock lock{mutex_};
  if (failure_) std::rethrow_exception(failure_);
  if (streams_)
    if (const auto error = world_->async_error()) std::rethrow_exception(error);
  if (finalized_) throw InvalidArgument("this communicator has been finalized: destroy it");
  return *world_;
}

Communicator& Comm::world_after_failure() {
  const std::scoped_lock lock{mutex_};
  if (making_ || !world_) throw InvalidArgument("this communicator has never been made");
  return *world_;
}

ncclResult_t Comm::state() {
  if (making_) return ncclInProgress;
  std::vector<Work> works;
  {
    const std::scoped_lock lock{mutex_};
    works = works_;
  }
  for (const Work& work : works)
    if (!work.is_completed()) return ncclInProgress;  // asking moves it on
  take_works();
  return finalized_ && !is_idle() ? ncclInProgress : ncclSuccess;
}

std::exception_ptr Comm::failure() {
  const std::scoped_lock lock{mutex_};
  if (failure_ || !world_) return failure_;
  return world_->async_error();
}

void Comm::fail(std::exception_ptr error) {
  const std::scoped_lock lock{mutex_};
  if (!failure_) failure_ = std::move(error);
}

void Comm::add(std::vector<Work> works) {
  const std::scoped_lock lock{mutex_};
  works_.insert(works_.end(), works.begin(), works.end());
}

void Comm::flush() {
  turns_.await_all();
  take_works();
}

void Comm::take_works() {
  std::vector<Work> works;
  {
    const std::scoped_lock lock{mutex_};
    works = std::exchange(works_, {});
  }
  for (const Work& work : works) {
    try {
      work.wait();
    } catch (...) {
      fail(std::current_exception());
    }
  }
}

void Comm::abort(const std::string& reason) {
  const std::scoped_lock lock{mutex_};
  if (aborted_.exchange(true)) return;
  if (world_) world_->abort(reason);
}

ncclRedOp_t Comm::add_factor(std::function<double()> factor) {
  const std::scoped_lock lock{mutex_};
  factors_.push_back(std::move(factor));
  return static_cast<ncclRedOp_t>(ncclNumOps + static_cast<int>(factors_.size()) - 1);
}

void Comm::remove_factor(ncclRedOp_t op) {
  const std::scoped_lock lock{mutex_};
  const auto index = static_cast<std::size_t>(op - ncclNumOps);
  if (op < ncclNumOps || index >= factors_.size() || !factors_[index])
    throw InvalidArgument(
        fmt::format("operation {} was not made for this communicator", static_cast<int>(op)));
  factors_[index] = nullptr;
}

Reducer Comm::reducer(ncclRedOp_t op) {
  switch (static_cast<int>(op)) {
    case ncclSum:
      return ReduceOp::sum;
    case ncclProd:
      return ReduceOp::product;
    case ncclMax:
      return ReduceOp::max;
    case ncclMin:
      return ReduceOp::min;
    case ncclAvg:
      return ReduceOp::average;
    default:
      break;
  }
  const std::scoped_lock lock{mutex_};
  const auto index = static_cast<std::size_t>(op - ncclNumOps);
  if (op < ncclNumOps || index >= factors_.size() || !factors_[index])
    throw InvalidArgument(
        fmt::format("there is no operation {} of this communicator", static_cast<int>(op)));
  return Reducer::premultiplied_sum(factors_[index]());
}

ncclComm_t handle_of(std::shared_ptr<Comm> comm) {
  const std::scoped_lock lock{handles().mutex};
  handles().last += between_handles;
  auto* const handle = reinterpret_cast<ncclComm_t>(handles().last);
  handles().open.emplace(handle, std::move(comm));
  return handle;
}

std::shared_ptr<Comm> comm_of(ncclComm_t handle) {
  const std::scoped_lock lock{handles().mutex};
  const auto found = handles().open.find(handle);
  if (found == handles().open.end()) throw_unknown(handle);
  return found->second;
}

std::shared_ptr<Comm> release(ncclComm_t handle) {
  const std::scoped_lock lock{handles().mutex};
  auto entry = handles().open.extract(handle);
  if (!entry) throw_unknown(handle);
  return std::move(entry.mapped());
}

}  // namespace capstan::nccl
