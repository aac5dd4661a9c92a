// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/key_memory.hpp"

#include <sodium.h>
#include <sys/mman.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <new>

namespace capstan {
namespace {

using Key = KeyMemory::Bytes;

constexpr std::size_t page_bytes = 4096, keys_of_page = page_bytes / sizeof(Key) - 1;

/// Keys, and nothing else but what says which places are free. No lock guards it, as a fork may
/// come while another thread would hold that.
struct Page {
  Page* next = nullptr;
  std::array<std::atomic<std::uint64_t>, 2> taken{};
  std::array<std::byte, sizeof(Key) - sizeof next - sizeof taken> unused{};
  std::array<Key, keys_of_page> places{};

  Key* take() {
    for (std::size_t i = 0; i < keys_of_page; i = (i | 63) + 1) {
      std::atomic<std::uint64_t>& word = taken[i / 64];
      std::uint64_t seen = word.load();
      while (~seen != 0) {
        const auto bit = static_cast<std::size_t>(std::countr_one(seen));
        if (i + bit >= keys_of_page) break;
        if (word.compare_exchange_weak(seen, seen | std::uint64_t{1} << bit))
          return &places[i + bit];
      }
    }
    return nullptr;
  }
  void give_back(const Key* place) {
    const auto i = static_cast<std::size_t>(place - places.data());
    taken[i / 64].fetch_and(~(std::uint64_t{1} << i % 64));
  }
};
static_assert(sizeof(Page) == page_bytes);

/// Pages are never given back to the system: a process has few keys, and places are used again.
std::atomic<Page*> pages{nullptr};

/// A system that refuses MADV_DONTDUMP costs nothing but this protection.
void add_page() {
  void* const memory =
      ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc{};
  static_cast<void>(::madvise(memory, page_bytes, MADV_DONTDUMP));
  Page* const page = new (memory) Page;
  page->next = pages.load();
  while (!pages.compare_exchange_weak(page->next, page)) {
  }
}

Key* take_place() {
  while (true) {
    for (Page* page = pages.load(); page; page = page->next)
      if (Key* const place = page->take()) return place;
    add_page();
  }
}

}  // namespace

KeyMemory::KeyMemory(const Bytes& bytes) : bytes_(take_place()) {
  *bytes_ = bytes;
}

void KeyMemory::GiveBack::operator()(Bytes* bytes) const {
  sodium_memzero(bytes->data(), bytes->size());
  const auto address = reinterpret_cast<std::uintptr_t>(bytes);
  reinterpret_cast<Page*>(address & ~(page_bytes - 1))->give_back(bytes);
}

}  // namespace capstan
