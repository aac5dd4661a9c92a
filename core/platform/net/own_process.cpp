// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/own_process.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "capstan/error.hpp"

namespace capstan {

/// The handlers of a fork().
struct ForkHandlers {
  static void before() { objects_mutex().lock(); }
  static void in_parent() { objects_mutex().unlock(); }
  static void in_child() {
    fork_generation.fetch_add(1, std::memory_order_relaxed);
    for (std::size_t i = 0; i < closed.size(); ++i)
      for (std::uint64_t bits = closed[i].exchange(0); bits != 0; bits &= bits - 1)
        ::close(static_cast<int>(i * bits_per_word) + std::countr_zero(bits));
    for (ChangedByFork* object = first; object; object = object->next_) object->become_child();
    objects_mutex().unlock();
  }

  static void add(ChangedByFork& object) {
    const std::lock_guard lock{objects_mutex()};
    object.next_ = first;
    if (first) first->previous_ = &object;
    first = &object;
  }
  static void remove(ChangedByFork& object) {
    const std::lock_guard lock{objects_mutex()};
    (object.previous_ ? object.previous_->next_ : first) = object.next_;
    if (object.next_) object.next_->previous_ = object.previous_;
  }

  /// Never destroyed: objects may be destroyed after static ones.
  static std::mutex& objects_mutex() {
    static auto& mutex = *new std::mutex;
    return mutex;
  }

  static constexpr std::size_t bits_per_word = 64;
  static inline ChangedByFork* first = nullptr;
  /// A bit for each descriptor that children close.
  static inline std::array<std::atomic<std::uint64_t>, 1024> closed{};
  static const int installed;
};

const int ForkHandlers::installed = ::pthread_atfork(before, in_parent, in_child);

ChangedByFork::ChangedByFork() {
  ForkHandlers::add(*this);
}
ChangedByFork::~ChangedByFork() {
  ForkHandlers::remove(*this);
}

bool close_in_children(int descriptor) {
  const auto place = static_cast<std::size_t>(descriptor) / ForkHandlers::bits_per_word;
  if (descriptor < 0 || place >= ForkHandlers::closed.size()) return false;
  ForkHandlers::closed[place].fetch_or(std::uint64_t{1} << (descriptor % 64));
  return true;
}

void forget_in_children(int descriptor) {
  const auto place = static_cast<std::size_t>(descriptor) / ForkHandlers::bits_per_word;
  ForkHandlers::closed[place].fetch_and(~(std::uint64_t{1} << (descriptor % 64)));
}

void OwnProcess::refuse(std::string_view what) const {
  throw InvalidArgument(fmt::format(
      "{} belongs to process {}, of which this process ({}) is a forked child: children may exec "
      "another program, drop their copy, or join a world of their own; they cannot use this one",
      what, id_, ::getpid()));
}

}  // namespace capstan
