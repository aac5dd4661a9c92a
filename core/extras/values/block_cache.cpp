// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "capstan/values/epoch_queue.hpp"

namespace capstan::values::detail {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

/// Programs make many short-lived tasks and values, often on one thread for another one: there the
/// locks of malloc's arenas are what limits. So each thread keeps free blocks, and threads pass
/// them on in batches. Sanitizers see plain allocations.
/// Blocks are multiples of `step` bytes; longer ones than the longest class are not kept.
// measured: docs/lab-notebook.md#many-small-tasks
constexpr std::size_t step = 64, classes = 12;
/// The number of blocks that threads pass on at a time.
constexpr int batch_blocks = 64;
/// The most batches of a class that are kept for other threads.
constexpr int kept_batches = 128;

/// The links in a free block.
struct Block {
  Block* next;
  Block* next_batch;  // in the first of a batch
};

struct Batch {
  Block* first = nullptr;
  int blocks = 0;

  bool empty() const { return blocks == 0; }
  bool full() const { return blocks == batch_blocks; }
  void push(void* memory) {
    first = new (memory) Block{first, nullptr};
    ++blocks;
  }
  void* pop() {
    --blocks;
    return std::exchange(first, first->next);
  }
  void free_all() {
    while (!empty()) ::operator delete(pop());
  }
};

/// Full batches of one class, for all threads.
class Depot {
 public:
  Batch take() {
    const std::scoped_lock lock{lock_};
    if (!first_) return {};
    --batches_;
    Block* const batch = std::exchange(first_, first_->next_batch);
    return {batch, batch_blocks};
  }
  void put(Batch batch) {
    if (!keep(batch)) batch.free_all();
  }

 private:
  bool keep(Batch batch) {
    const std::scoped_lock lock{lock_};
    if (batches_ == kept_batches) return false;
    ++batches_;
    batch.first->next_batch = std::exchange(first_, batch.first);
    return true;
  }

  SpinLock lock_;
  Block* first_ = nullptr;
  int batches_ = 0;
};

constinit std::array<Depot, classes> depots;

/// The free blocks of one class that a thread keeps. Two batches, so that a thread that allocates
/// and frees by turns does not go to the depot each time.
struct Kept {
  Batch first{}, second{};

  void* take(Depot& depot) {
    if (first.empty()) std::swap(first, second);
    if (first.empty()) first = depot.take();
    return first.empty() ? nullptr : first.pop();
  }
  void put(void* block, Depot& depot) {
    if (first.full()) {
      if (second.full()) depot.put(std::exchange(second, {}));
      std::swap(first, second);
    }
    first.push(block);
  }
};

struct OfThread {
  std::array<Kept, classes> kept{};

  void give_back() {
    for (std::size_t i = 0; i < classes; ++i)
      for (Batch batch : {kept[i].first, kept[i].second})
        batch.full() ? depots[i].put(batch) : batch.free_all();
  }
};

thread_local OfThread* of_thread = nullptr;
/// Destructors of the thread's other objects may still free blocks then.
thread_local bool has_ended = false;

void end_thread(void* ending) {
  has_ended = true;
  of_thread = nullptr;
  auto* const mine = static_cast<OfThread*>(ending);
  mine->give_back();
  delete mine;
}

/// By a key, as the library has no objects that exit() destroys. Null: the system lacks something.
OfThread* begin_thread() {
  struct Key {
    pthread_key_t value{};
    bool made = pthread_key_create(&value, end_thread) == 0;
  };
  static const Key key;
  if (!key.made) return nullptr;
  std::unique_ptr<OfThread> mine{new (std::nothrow) OfThread};
  if (!mine || pthread_setspecific(key.value, mine.get()) != 0) return nullptr;
  return of_thread = mine.release();
}

bool has_class(std::size_t bytes) {
  return !sanitized && bytes > 0 && bytes <= step * classes;
}

/// Null: blocks of this length, or of this thread, are not kept.
OfThread* keeper(std::size_t bytes) {
  if (!has_class(bytes) || has_ended) return nullptr;
  return of_thread ? of_thread : begin_thread();
}

std::size_t class_of(std::size_t bytes) {
  return (bytes + step - 1) / step - 1;
}

/// Throws std::bad_alloc.
void* allocate_block(std::size_t bytes) {
  if (OfThread* const mine = keeper(bytes))
    if (void* const block = mine->kept[class_of(bytes)].take(depots[class_of(bytes)])) return block;
  // As long as its class, as the thread that frees it may keep it.
  return ::operator new(has_class(bytes) ? (class_of(bytes) + 1) * step : bytes);
}

/// `bytes` as in allocate_block().
void free_block(void* block, std::size_t bytes) noexcept {
  OfThread* const mine = keeper(bytes);
  if (!mine) return ::operator delete(block);
  mine->kept[class_of(bytes)].put(block, depots[class_of(bytes)]);
}

}  // namespace

void* FromBlocks::operator new(std::size_t bytes) {
  return allocate_block(bytes);
}

void* FromBlocks::operator new(std::size_t bytes, std::align_val_t alignment) {
  return ::operator new(bytes, alignment);
}

void FromBlocks::operator delete(void* block, std::size_t bytes) noexcept {
  free_block(block, bytes);
}

void FromBlocks::operator delete(void* block, std::size_t, std::align_val_t alignment) noexcept {
  ::operator delete(block, alignment);
}

}  // namespace capstan::values::detail
