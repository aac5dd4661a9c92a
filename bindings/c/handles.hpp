// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "bindings/c/capstan.h"
#include "capstan/async/persistent.hpp"
#include "capstan/communicator.hpp"

// The parts that all of the C interface shares: handles, and the way from exceptions to codes.

namespace capstan::c {

/// The first member of each handle: tells kinds apart, and what has been destroyed, as far as its
/// memory can still be read.
class Mark {
 public:
  explicit Mark(std::uint64_t kind) : kind_(kind) {}
  ~Mark() { kind_.store(0, std::memory_order_relaxed); }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

  bool is(std::uint64_t kind) const { return kind_.load(std::memory_order_relaxed) == kind; }

 private:
  std::atomic<std::uint64_t> kind_;
};

}  // namespace capstan::c

struct capstan_communicator {
  static constexpr std::uint64_t kind = 0x6361'7073'7461'6e01;
  static constexpr const char* name = "communicator";

  explicit capstan_communicator(capstan::Communicator owned) : communicator(std::move(owned)) {}

  capstan::c::Mark mark{kind};
  capstan::Communicator communicator;
};

struct capstan_work {
  static constexpr std::uint64_t kind = 0x6361'7073'7461'6e02;
  static constexpr const char* name = "work";

  explicit capstan_work(capstan::Work started) : work(std::move(started)) {}

  capstan::c::Mark mark{kind};
  capstan::Work work;
};

struct capstan_persistent {
  static constexpr std::uint64_t kind = 0x6361'7073'7461'6e05;
  static constexpr const char* name = "persistent call";

  explicit capstan_persistent(capstan::PersistentCall made) : call(std::move(made)) {}

  capstan::c::Mark mark{kind};
  capstan::PersistentCall call;
};

struct capstan_operation {
  static constexpr std::uint64_t kind = 0x6361'7073'7461'6e03;
  static constexpr const char* name = "operation";

  explicit capstan_operation(capstan::Reducer owned) : reducer(std::move(owned)) {}

  capstan::c::Mark mark{kind};
  capstan::Reducer reducer;
};

namespace capstan::c {

/// Keeps the exception that is being handled as the last error of this thread; returns its code.
capstan_status remember_error() noexcept;

/// Runs the body of a function of the interface.
template <class Body>
capstan_status guarded(const Body& body) noexcept {
  try {
    body();
    return CAPSTAN_OK;
  } catch (...) {
    return remember_error();
  }
}

/// Throws InvalidArgument.
template <class... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw InvalidArgument(fmt::format(text, std::forward<Arguments>(arguments)...));
}

/// The object behind a handle.
template <class Handle>
Handle& of(Handle* handle) {
  using Kind = std::remove_const_t<Handle>;
  if (!handle) refuse("the {} is null: create one first", Kind::name);
  if (!handle->mark.is(Kind::kind))
    refuse("this is no {}, or one that has been destroyed", Kind::name);
  return *handle;
}

template <class T>
T& required(T* pointer, const char* name) {
  if (!pointer) refuse("{} is null: pass the address of a variable", name);
  return *pointer;
}

/// Deletes what a handle means; null does nothing.
template <class Handle>
capstan_status destroy(Handle* handle) noexcept {
  return guarded([&] {
    if (handle) delete &of(handle);
  });
}

/// A value that an enumeration of the library has.
template <class Enum>
Enum checked(std::int32_t value, std::size_t count, const char* name) {
  if (value < 0 || static_cast<std::size_t>(value) >= count)
    refuse("{} {} does not exist: use the constants of capstan.h", name, value);
  return static_cast<Enum>(value);
}
inline DataType checked_type(capstan_type type) {
  return checked<DataType>(type, all_data_types().size(), "the type");
}

/// The size of a struct in the first version of the interface, whatever members come later.
template <class Struct>
inline constexpr std::size_t first_size = 0;
template <>
inline constexpr std::size_t first_size<capstan_settings> =
    offsetof(capstan_settings, buffer_limit) + sizeof(std::uint64_t);
template <>
inline constexpr std::size_t first_size<capstan_store> =
    offsetof(capstan_store, try_get) + sizeof(void*);
template <>
inline constexpr std::size_t first_size<capstan_request> =
    offsetof(capstan_request, factor) + sizeof(double);
template <>
inline constexpr std::size_t first_size<capstan_tensor_request> =
    offsetof(capstan_tensor_request, factor) + sizeof(double);

/// A struct that may be shorter or longer than this library's: of an older or a newer header. What
/// an older one lacks is zero. What a newer one has beyond is zero, or asks for what this library
/// cannot do.
template <class Struct>
Struct versioned(const Struct* given, const char* name) {
  std::size_t size = 0;
  std::memcpy(&size, &required(given, name), sizeof size);
  constexpr std::size_t longest = 64 * sizeof(Struct);
  if (size < first_size<Struct> || size > longest)
    refuse("{}: its size is {}: start from the _INIT macro of capstan.h", name, size);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t i = sizeof(Struct); i < size; ++i)
    if (bytes[i] != 0)
      throw InvalidArgument(
          fmt::format("{}: a member that this version of Capstan does not have is set: install the "
                      "version of your capstan.h",
                      name),
          ErrorCode::not_supported);
  Struct known{};
  std::memcpy(&known, given, std::min(size, sizeof known));
  return known;
}

/// Seconds from now; negative: never.
Deadline deadline_in(double seconds);

/// A copy for the program, which frees it by capstan_free_text().
inline char* copy_of(const std::string& text) {
  char* const copy = ::strdup(text.c_str());
  if (!copy) throw std::bad_alloc{};
  return copy;
}

/// Throws InvalidArgument for what the communicator cannot do.
Request to_request(const capstan_request& request, const Communicator& communicator);

/// Starts what `start` returns a Work of, and gives it out as a handle.
template <class Start>
capstan_status give_work(capstan_work** work, const Start& start) noexcept {
  return guarded([&] {
    capstan_work*& given = required(work, "work");
    given = new capstan_work(start());
  });
}

}  // namespace capstan::c
