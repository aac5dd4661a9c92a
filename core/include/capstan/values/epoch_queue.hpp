// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <string>
#include <thread>
#include <typeinfo>
#include <utility>
#include <vector>

#include "capstan/export.hpp"
#include "capstan/values/errors.hpp"

namespace CAPSTAN_EXPORT capstan {
namespace values {

/// The facts about a value in graphs of tasks: where it is, its type, and its place among all
/// values and tasks that the process has made, from 1 on (threads reserve numbers in blocks).
struct NodeInfo {
  const void* address = nullptr;
  std::string type{};
  std::uint64_t index = 0;
};

namespace detail {

/// A lock for a few instructions. Never held while the program's code runs.
class SpinLock {
 public:
  void lock() {
    while (held_.exchange(true, std::memory_order_acquire)) wait();
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  void wait() const {
    for (int i = 0; held_.load(std::memory_order_relaxed); ++i)
      if (i > 50) std::this_thread::yield();
  }
  std::atomic<bool> held_{false};
};

/// A task, or a blocked thread, that waits for an epoch. `wake` is called when the epoch comes. It
/// runs under locks of the value, so it only passes the notice on.
struct Waiter {
  Waiter* next = nullptr;
  void (*wake)(Waiter&) = nullptr;
};

enum class Access : std::uint8_t { read, mutate, write };

/// The result of a writer: the value that was there, a new one, none, or an error instead of one.
enum class Outcome : std::uint8_t { unchanged, written, dropped, failed };

/// Gives its heirs memory that threads pass on to each other cheaply.
struct FromBlocks {
  static void* operator new(std::size_t bytes);
  static void* operator new(std::size_t bytes, std::align_val_t alignment);
  static void operator delete(void* block, std::size_t bytes) noexcept;
  static void operator delete(void* block, std::size_t bytes, std::align_val_t alignment) noexcept;
};

/// One writer, then its readers.
struct Epoch : FromBlocks {
  enum class Phase : std::uint8_t { pending, writable, readable };

  Epoch* next = nullptr;
  Waiter* writer = nullptr;   ///< waits for the phase `writable`
  Waiter* readers = nullptr;  ///< wait for the phase `readable`, the last one first
  std::exception_ptr error{};
  std::uint64_t number = 0;
  std::uint32_t reading = 0;  ///< buffers that read this epoch, waiting or not
  std::atomic<Phase> phase{Phase::pending};
  bool released = false;  ///< the writer is done, perhaps before its turn
  Outcome outcome = Outcome::unchanged;
};

/// The next number for NodeInfo::index.
std::uint64_t next_index();
std::string type_name(const std::type_info& type);

}  // namespace detail

/// The order of all accesses to one value: writer, its readers in parallel, next writer, and so on.
///
/// An access takes its place when its buffer is made (Async::read() and its kin), not when the
/// buffer is awaited. Epochs are numbered from 0, which is what the value was made with. There is
/// no graph: an epoch knows the tasks that wait for it, and nothing else knows any. An epoch's
/// memory is freed when the next one begins, the value's when neither a handle nor a buffer is
/// left.
///
/// All functions are thread-safe. Programs use Async and buffers, which call them.
class EpochQueue : public detail::FromBlocks {
 public:
  using Epoch = detail::Epoch;
  using Waiter = detail::Waiter;
  using Access = detail::Access;
  using Outcome = detail::Outcome;

  explicit EpochQueue(const std::type_info& type);
  EpochQueue(const EpochQueue&) = delete;
  EpochQueue& operator=(const EpochQueue&) = delete;

  /// Another handle of the value, and the end of one. The queue deletes itself after the last.
  void add_user();
  void drop_user();

  /// Joins the readers of the last epoch. Ends with end_read().
  Epoch* begin_read();
  /// Another reader of an epoch that the caller reads.
  void begin_read_again(Epoch& epoch);
  /// A new epoch after all others. Ends with end_write().
  Epoch* begin_write();

  static bool is_ready(const Epoch& epoch, Access access) {
    return epoch.phase.load(std::memory_order_acquire) ==
           (access == Access::read ? Epoch::Phase::readable : Epoch::Phase::writable);
  }
  /// False if the epoch is ready for this access; else `waiter` is woken once when it is.
  bool wait(Epoch& epoch, Access access, Waiter& waiter);

  /// Afterwards `waiter`, of this epoch, is not woken any more.
  void stop_waiting(Epoch& epoch, const Waiter& waiter);

  /// `waiter` is one that may still wait for the epoch, or null.
  void end_read(Epoch& epoch, const Waiter* waiter);
  /// `error` is for Outcome::failed.
  void end_write(Epoch& epoch, const Waiter* waiter, Outcome outcome,
                 std::exception_ptr error = nullptr);

  /// Throws the error that was left instead of a value. For holders of a ready buffer, like
  /// is_missing().
  void check() const {
    if (error_) std::rethrow_exception(error_);
  }
  /// Whether the writer was to write a value, and did not.
  bool is_missing() const { return missing_; }

  NodeInfo info() const { return {this, detail::type_name(type_), index_}; }
  /// "value 3 (double)".
  std::string describe() const;
  /// "epoch 2 of value 3 (double): its writer has not released it, 4 read it or wait".
  std::string describe(const Epoch& epoch);

 protected:
  virtual ~EpochQueue();

 private:
  /// Objects to destroy after the lock has been released: destructors may be the program's code.
  struct Garbage {
    Epoch* epochs = nullptr;
    std::vector<std::exception_ptr> errors{};
    ~Garbage();
  };
  static void forget(Epoch& epoch, const Waiter* waiter);
  bool is_last_user() { return --users_ == 0; }
  void open(Epoch& epoch, Garbage& garbage);
  void settle(Garbage& garbage);
  void retire(Epoch* epoch, Garbage& garbage);
  Epoch* take_epoch();

  detail::SpinLock lock_;
  std::uint32_t users_ = 1;
  Epoch* front_;
  Epoch* back_;
  Epoch* spare_ = nullptr;
  std::exception_ptr error_;
  bool missing_ = false;
  const std::type_info& type_;
  std::uint64_t index_;
  Epoch first_;
};

namespace detail {

/// A value with its queue.
template <class T>
class Value final : public EpochQueue {
 public:
  Value() : EpochQueue(typeid(T)) {}
  template <class... Args>
  explicit Value(std::in_place_t, Args&&... args) : Value() {
    construct(std::forward<Args>(args)...);
  }
  ~Value() override { destroy(); }

  bool constructed() const { return constructed_; }
  T& get() { return value_; }
  template <class... Args>
  void construct(Args&&... args) {
    destroy();
    std::construct_at(&value_, std::forward<Args>(args)...);
    constructed_ = true;
  }

 private:
  void destroy() {
    if (std::exchange(constructed_, false)) std::destroy_at(&value_);
  }
  union {
    T value_;
  };
  bool constructed_ = false;
};

}  // namespace detail
}  // namespace values
}  // namespace CAPSTAN_EXPORT capstan
