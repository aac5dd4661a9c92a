// SPDX-License-Identifier: Apache-2.0
#include "core/engine/control/allocation.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "core/platform/memory/huge_pages.hpp"
#include "core/platform/net/random.hpp"
#include "core/platform/net/system_call.hpp"
#include "transports/shm/memfd.hpp"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace capstan::shared {
namespace {

constexpr std::string_view no_memory = "allocate less, or give back what is not needed";

Bytes with_tail(Bytes size) {
  return whole_pages(size) + whole_pages(Bytes{sizeof(Tail)});
}

/// Allocates the pages of a part of the file.
void commit_pages(int fd, std::uint64_t offset, std::uint64_t length) {
  int result = 0;
  do {
    result = ::fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(length));
  } while (result < 0 && errno == EINTR);
  checked(result, "fallocate of shared memory", no_memory);
}

}  // namespace

Allocation::Allocation(Bytes size, Kind kind) : size_(size), kind_(kind) {
  require_segment_size(with_tail(size));
  if (kind == Kind::shared)
    share();
  else
    commit_own();
}

Allocation::~Allocation() {
  // The parent of a forked child still uses it.
  if (kind_ == Kind::own || !process_.is_this()) return;
  tail().is_free.store(1, std::memory_order_release);
  ::madvise(mapping_.data(), whole_pages(size_).value(), MADV_REMOVE);
}

Tail& Allocation::tail() const {
  return *reinterpret_cast<Tail*>(mapping_.data() + whole_pages(size_).value());
}

/// Allocates all pages now: a lack of memory is an error here instead of a signal later.
void Allocation::commit_own() {
  mapping_ = Mapping::anonymous(size_, Mapping::InChildren::the_memory);
  ::madvise(mapping_.data(), size_.value(), MADV_HUGEPAGE);
  if (::madvise(mapping_.data(), whole_pages(size_).value(), MADV_POPULATE_WRITE) != 0 &&
      errno == ENOMEM)
    throw_errno("madvise(MADV_POPULATE_WRITE)", no_memory);
}

/// Allocates all pages now, for the same reason. One small page of each huge page is allocated
/// first, so that the kernel can collapse it while there is nothing to copy.
void Allocation::share() {
  // Writable for all: peers write results there, and the owner needs it to remove the pages.
  shm::Memfd memory = shm::Memfd::create(with_tail(size_), Mapping::InChildren::the_memory);
  descriptor_ = std::move(memory.fd);
  mapping_ = std::move(memory.mapping);
  for (Bytes at{0}; at + huge_page <= size_; at += huge_page)
    commit_pages(descriptor_.get(), at.value(), 1);
  collapse_pages(mapping_.data(), size_);
  const std::uint64_t all = with_tail(size_).value();
  commit_pages(descriptor_.get(), 0, all);
  ::madvise(mapping_.data(), all,
            MADV_POPULATE_WRITE);  // otherwise pages are mapped one by one, at first use
  new (&tail()) Tail{random_value<std::uint64_t>(), 0};
}

View View::of(int pid, int descriptor, Bytes size, std::uint64_t token) {
  View view;
  if (!is_segment_size(size)) return view;
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, descriptor);
  struct stat status{};
  // Opening what is no file, a device for example, could do something to it.
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return view;
  const FileDescriptor fd{::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK)};
  if (!fd.valid() || shm::unsafe_to_map(fd.get(), with_tail(size))) return view;
  view.size_ = size;
  try {
    view.mapping_ = Mapping::shared(fd.get(), with_tail(size), PROT_READ | PROT_WRITE);
  } catch (const SystemError&) {
    return {};  // the memory can still be read through the kernel
  }
  const auto* tail =
      reinterpret_cast<const Tail*>(view.mapping_.data() + whole_pages(size).value());
  return tail->token == token ? std::move(view) : View{};
}

bool View::is_free() const {
  const auto* tail = reinterpret_cast<const Tail*>(mapping_.data() + whole_pages(size_).value());
  return tail->is_free.load(std::memory_order_acquire) != 0;
}

}  // namespace capstan::shared
