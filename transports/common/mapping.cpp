// SPDX-License-Identifier: Apache-2.0
#include "transports/common/mapping.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "capstan/error.hpp"
#include "core/platform/net/own_process.hpp"
#include "core/platform/net/system_call.hpp"

namespace capstan {
namespace {

constexpr std::uint64_t huge_page = std::uint64_t{2} << 20;
constexpr std::uint64_t largest_segment = std::uint64_t{1} << 46;  // the most that x86-64 can map
constexpr std::string_view remedy = "ask for a smaller segment, or raise ulimit -v";

std::uint64_t page() {
  static const auto size = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

Bytes whole_pages(Bytes size) {
  return Bytes{round_up(size.value(), page())};
}

bool is_segment_size(Bytes size) {
  return size.value() > 0 && size.value() <= largest_segment;
}

void require_segment_size(Bytes size) {
  if (!is_segment_size(size)) {
    throw InvalidArgument(fmt::format("a segment of {} bytes cannot be made; ask for 1 to {}",
                                      size.value(), largest_segment));
  }
}

/// Puts other memory in the place of a mapping that forked children do not get.
class Mapping::ZerosInChildren final : private ChangedByFork {
 public:
  ZerosInChildren(std::byte* data, std::size_t length)
      : data_(data), length_(length), guard_(page()) {
    ::madvise(data, length, MADV_DONTFORK);
  }

 private:
  void become_child() noexcept override {
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    ::mmap(data_, length_, PROT_READ | PROT_WRITE, flags, -1, 0);
    ::mprotect(data_ + length_ - guard_, guard_, PROT_NONE);
  }

  std::byte* const data_;
  const std::size_t length_, guard_;
};

Mapping::Mapping() = default;

Mapping Mapping::reserve(Bytes size) {
  const std::uint64_t length = whole_pages(size).value() + page();
  const std::uint64_t alignment = size.value() >= huge_page ? huge_page : page();
  const std::uint64_t total = length + alignment;
  void* start =
      ::mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) throw_errno("mmap", remedy);

  const auto address = reinterpret_cast<std::uintptr_t>(start);
  const std::uint64_t before = round_up(address, alignment) - address;
  auto* base = static_cast<std::byte*>(start);
  if (before > 0) ::munmap(base, before);
  ::munmap(base + before + length, total - before - length);

  Mapping mapping;
  mapping.data_ = base + before;
  mapping.length_ = length;
  return mapping;
}

void Mapping::fill(Bytes size, int protection, int flags, int fd, InChildren in_children) {
  const auto length = whole_pages(size).value();
  if (::mmap(data_, length, protection, flags | MAP_FIXED, fd, 0) == MAP_FAILED) {
    throw_errno("mmap", remedy);
  }
  if (in_children == InChildren::zeros)
    zeros_in_children_ = std::make_unique<ZerosInChildren>(data_, length_);
}

Mapping Mapping::anonymous(Bytes size, InChildren in_children) {
  Mapping mapping = reserve(size);
  mapping.fill(size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
               in_children);
  return mapping;
}

Mapping Mapping::shared(int fd, Bytes size, int protection, InChildren in_children) {
  Mapping mapping = reserve(size);
  mapping.fill(size, protection, MAP_SHARED | MAP_NORESERVE, fd, in_children);
  return mapping;
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      length_(std::exchange(other.length_, 0)),
      zeros_in_children_(std::move(other.zeros_in_children_)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(length_, other.length_);
  std::swap(zeros_in_children_, other.zeros_in_children_);
  return *this;
}

Mapping::~Mapping() {
  zeros_in_children_.reset();  // first: what comes to this place next is none of its business
  if (data_) ::munmap(data_, length_);
}

}  // namespace capstan
