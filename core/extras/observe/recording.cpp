// SPDX-License-Identifier: Apache-2.0
#include "core/extras/observe/recording.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "capstan/error.hpp"
#include "core/platform/net/file_descriptor.hpp"

namespace capstan {
namespace {

constexpr std::array<char, 8> magic{'c', 'a', 'p', 's', 't', 'a', 'n', '1'};

template <class Word>
std::uint64_t word_at(const char* from) {
  Word word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

/// The first and the last characters, up to eight of each.
std::array<std::uint64_t, 2> ends_of(std::string_view name) {
  const char* const begin = name.data();
  const char* const end = begin + name.size();
  if (name.size() >= 8) return {word_at<std::uint64_t>(begin), word_at<std::uint64_t>(end - 8)};
  if (name.size() >= 4) return {word_at<std::uint32_t>(begin), word_at<std::uint32_t>(end - 4)};
  return {word_at<std::uint8_t>(begin), word_at<std::uint8_t>(end - 1)};
}

/// Names whose ends and lengths are equal collide; they are compared anyway.
std::uint64_t hash_of(std::string_view name) {
  const auto [first, last] = ends_of(name);
  const std::uint64_t mixed =
      ((first ^ name.size()) * 0x9e37'79b9'7f4a'7c15) ^ (last * 0xc2b2'ae3d'27d4'eb4f);
  return mixed ^ (mixed >> 29);
}

/// The words are put together in registers: loads of memory that was just written in smaller pieces
/// have to wait for it.
std::array<std::uint64_t, 6> words_of(const StoredOperation& operation) {
  const auto both = [](auto low, auto high, int bits) {
    return std::uint64_t{low} | std::uint64_t{high} << bits;
  };
  static_assert(std::endian::native == std::endian::little);
  return {operation.number,
          operation.bytes,
          static_cast<std::uint64_t>(operation.began),
          static_cast<std::uint64_t>(operation.ended),
          both(static_cast<std::uint32_t>(operation.ranks),
               static_cast<std::uint32_t>(operation.rank), 32),
          both(both(operation.operation, operation.algorithm, 16),
               both(operation.tag, operation.failed, 16), 32)};
}

[[noreturn]] void fail(const char* what, const std::string& file, int error) {
  throw SystemError(fmt::format("cannot {} the recording {}: {}", what, file,
                                std::generic_category().message(error)));
}

std::size_t checked(std::size_t capacity) {
  if (capacity == 0 || capacity > Recording::most_operations)
    throw InvalidArgument(fmt::format("Profiler: a capacity of {} operations: pass 1 to {}",
                                      capacity, Recording::most_operations));
  return capacity;
}

}  // namespace

Bytes Recording::bytes_for(std::size_t capacity) {
  return whole_pages(
      Bytes{header_bytes + names * sizeof(StoredName) + capacity * sizeof(StoredOperation)});
}

Recording::Recording(std::size_t capacity, const std::string& file)
    : Recording(checked(capacity),
                file.empty() ? Mapping::anonymous(bytes_for(capacity)) : created(file, capacity)) {
  begin();
}

Recording::Recording(std::size_t capacity, Mapping memory)
    : capacity_(capacity), memory_(std::move(memory)) {}

/// The file has all of its blocks: a store to one that the disk has no room for would end the
/// process. An older file of that name is left to those who have mapped it.
Mapping Recording::created(const std::string& file, std::size_t capacity) {
  ::unlink(file.c_str());
  const FileDescriptor made{::open(file.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600)};
  if (made.get() < 0) fail("create", file, errno);
  const Bytes bytes = bytes_for(capacity);
  if (const int error = ::posix_fallocate(made.get(), 0, static_cast<off_t>(bytes.value())))
    fail("get room for", file, error);
  return Mapping::shared(made.get(), bytes, PROT_READ | PROT_WRITE);
}

Recording Recording::open(const std::string& file) {
  const FileDescriptor opened{::open(file.c_str(), O_RDONLY | O_CLOEXEC)};
  if (opened.get() < 0) fail("open", file, errno);
  struct {
    std::array<char, 8> begins;
    std::uint32_t capacity, name_count;
  } header{};
  struct stat status{};
  const bool read = ::pread(opened.get(), &header, sizeof header, 0) == sizeof header &&
                    ::fstat(opened.get(), &status) == 0;
  if (!read || header.begins != magic || header.name_count != names || header.capacity == 0 ||
      header.capacity > most_operations ||
      Bytes{static_cast<std::uint64_t>(status.st_size)} < bytes_for(header.capacity))
    throw InvalidArgument(fmt::format(
        "{} is no recording of a profiler of this version: see ProfilerOptions::file", file));
  return Recording{header.capacity,
                   Mapping::shared(opened.get(), bytes_for(header.capacity), PROT_READ)};
}

void Recording::begin() {
  using std::chrono::duration_cast;
  using std::chrono::nanoseconds;
  static_assert(sizeof(Header) <= header_bytes);
  Header& made = *new (memory_.data()) Header{};
  const auto steady = std::chrono::steady_clock::now().time_since_epoch();
  const auto system = std::chrono::system_clock::now().time_since_epoch();
  made.magic = magic;
  made.capacity = static_cast<std::uint32_t>(capacity_);
  made.name_count = names;
  made.origin = (duration_cast<nanoseconds>(system) - duration_cast<nanoseconds>(steady)).count();
  std::ranges::copy(std::string_view{"(other)"}, stored_names()[other_names].begin());
  made.known_names.store(2, std::memory_order_release);
}

std::string_view Recording::name(Name number) const {
  if (number >= names) return {};
  const StoredName& stored = stored_names()[number];
  return {stored.data(), ::strnlen(stored.data(), longest_name)};
}

bool Recording::is_name(Name number, std::string_view text) const noexcept {
  const StoredName& stored = stored_names()[number];
  return stored[text.size()] == 0 && std::memcmp(stored.data(), text.data(), text.size()) == 0;
}

Recording::Name Recording::number_of(std::string_view text) noexcept {
  if (text.empty()) return no_name;
  text = text.substr(0, longest_name);
  std::size_t place = hash_of(text) % numbers_.size();
  for (; numbers_[place] != 0; place = (place + 1) % numbers_.size())
    if (is_name(numbers_[place], text)) return numbers_[place];
  return add_name(text, numbers_[place]);
}

Recording::Name Recording::add_name(std::string_view text, Name& place) noexcept {
  const std::uint32_t known = header().known_names.load(std::memory_order_relaxed);
  if (known == names) return other_names;
  std::ranges::copy(text, stored_names()[known].begin());
  header().known_names.store(known + 1, std::memory_order_release);
  return place = static_cast<Name>(known);
}

Recording::Words& Recording::place(std::size_t index) const {
  std::byte* const ring = memory_.data() + header_bytes + names * sizeof(StoredName);
  return *reinterpret_cast<Words*>(ring + index * sizeof(Words));
}

void Recording::append(StoredOperation operation) noexcept {
  operation.number = header().written.load(std::memory_order_relaxed) + 1;
  Words& place = this->place(next_);
  if (++next_ == capacity_) next_ = 0;
  place[0].store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);  // a reader that sees a new word sees this 0
  const auto words = words_of(operation);
  for (std::size_t i = 1; i < words.size(); ++i)
    place[i].store(words[i], std::memory_order_relaxed);
  place[0].store(operation.number, std::memory_order_release);
  header().written.store(operation.number, std::memory_order_release);
}

void Recording::clear() noexcept {
  header().forgotten.store(written(), std::memory_order_release);
}

std::optional<StoredOperation> Recording::at(std::uint64_t number) const {
  const Words& place = this->place((number - 1) % capacity_);
  std::array<std::uint64_t, sizeof(StoredOperation) / 8> words{};
  words[0] = place[0].load(std::memory_order_acquire);
  if (words[0] != number) return std::nullopt;
  for (std::size_t i = 1; i < words.size(); ++i)
    words[i] = place[i].load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (place[0].load(std::memory_order_relaxed) != number) return std::nullopt;
  return std::bit_cast<StoredOperation>(words);
}

std::chrono::system_clock::time_point Recording::system_time(std::int64_t steady) const {
  using std::chrono::system_clock;
  return system_clock::time_point{std::chrono::duration_cast<system_clock::duration>(
      std::chrono::nanoseconds{header().origin + steady})};
}

}  // namespace capstan
