// SPDX-License-Identifier: Apache-2.0

// The types of elements and ranges that calls accept, as the compiler sees them.

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "capstan/communicator.hpp"

namespace capstan {
namespace {

static_assert(data_type_of<char> == (std::is_signed_v<char> ? DataType::i8 : DataType::u8));
static_assert(data_type_of<signed char> == DataType::i8);
static_assert(data_type_of<std::byte> == DataType::u8);
static_assert(data_type_of<long> == (sizeof(long) == 8 ? DataType::i64 : DataType::i32));
static_assert(data_type_of<long long> == DataType::i64);
static_assert(data_type_of<unsigned long long> == DataType::u64);
static_assert(!Element<short> && !Element<unsigned short> && !Element<bool> && !Element<wchar_t> &&
              !Element<char8_t> && !Element<char32_t> && !Element<long double> && !Element<void*>);

template <class Range, class Other>
constexpr bool starts =
    requires(Communicator world, Range&& range, Other&& other, std::span<const std::size_t> n) {
      { world.start_all_reduce(std::forward<Range>(range), std::forward<Other>(other)) };
      { world.start_all_gather(std::forward<Range>(range), std::forward<Other>(other)) };
      { world.start_gather_v(std::forward<Range>(range), std::forward<Other>(other), n, 0) };
      { world.start_all_to_all_v(std::forward<Range>(range), n, std::forward<Other>(other), n) };
    };
template <class Range>
constexpr bool starts_a_receive = requires(Communicator world, Range&& range) {
  world.start_receive(std::forward<Range>(range));
};
template <class Range>
constexpr bool starts_a_send = requires(Communicator world, Range&& range) {
  world.start_send(std::forward<Range>(range), 0);
};
template <class Range>
constexpr bool starts_a_broadcast = requires(Communicator world, Range&& range) {
  world.start_broadcast(std::forward<Range>(range), 0);
};
template <class Range>
constexpr bool makes_a_message =
    requires(Range&& range) { Message::to(0, std::forward<Range>(range)); };

// Operations in the background refer to variables and views.
using Vector = std::vector<float>;
using View = std::span<float>;
static_assert(starts<Vector&, Vector&> && starts<View, View> && starts<const Vector&, View>);
static_assert(!starts<Vector, Vector&> && !starts<Vector&, Vector> && !starts<View, Vector>);
static_assert(!starts<std::array<float, 4>, View> && !starts<SharedBuffer<float>, View>);
static_assert(starts_a_receive<Vector&> && starts_a_receive<View> && !starts_a_receive<Vector>);
static_assert(starts_a_send<const Vector&> && starts_a_send<View> && !starts_a_send<Vector>);
static_assert(starts_a_broadcast<Vector&> && !starts_a_broadcast<Vector>);
static_assert(makes_a_message<Vector&> && makes_a_message<View> && !makes_a_message<Vector>);

/// A blocking call has done with its ranges when it returns.
static_assert(requires(Communicator world, View view) { world.all_reduce(Vector{1}, view); });

TEST(Elements, IntegersOfAllNamesTravel) {
  auto world = std::move(Communicator::local_world(1).front());
  std::vector<long long> sums{1, 2};
  std::vector<std::int64_t> same(2);
  world.all_reduce(sums, same);
  EXPECT_EQ(same, (std::vector<std::int64_t>{1, 2}));
  std::string text = "text";
  world.broadcast(text, 0);
  std::vector<std::byte> bytes(3);
  world.all_gather(bytes, bytes);
  EXPECT_EQ(text, "text");
}

TEST(Version, TheLibraryHasThatOfItsHeaders) {
  EXPECT_EQ(version(), std::to_string(CAPSTAN_VERSION_MAJOR) + "." +
                           std::to_string(CAPSTAN_VERSION_MINOR) + "." +
                           std::to_string(CAPSTAN_VERSION_PATCH));
}

}  // namespace
}  // namespace capstan
