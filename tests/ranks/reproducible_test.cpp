// SPDX-License-Identifier: Apache-2.0

// Reproducible sums: bit by bit those of adding in the order of ranks, wherever an element lies in
// a call, however long the call is, and on however many hosts its ranks are.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "algorithms/registry.hpp"
#include "capstan/custom_algorithm.hpp"
#include "capstan/request.hpp"
#include "core/engine/world/make_transport.hpp"
#include "core/schedule/interchange/formats.hpp"
#include "tests/ranks/thread_world.hpp"
#include "tests/sanitizers.hpp"

namespace capstan {
namespace {

using ::testing::HasSubstr;

/// A number of bf16, which is the upper half of one of f32.
struct Bf16 {
  std::uint16_t bits;
};

float wide(Bf16 x) {
  return std::bit_cast<float>(std::uint32_t{x.bits} << 16);
}
float wide(float x) {
  return x;
}
double wide(double x) {
  return x;
}

template <class T, class Wide>
T narrow(Wide x) {
  if constexpr (std::is_same_v<T, Bf16>) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    return {static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16)};
  } else {
    return static_cast<T>(x);
  }
}

/// Element `id` of the endless series that `rank` gives: of seven decades, of both signs.
template <class T>
T given(int rank, std::uint64_t id) {
  std::uint64_t mixed =
      (id + 1) * 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(rank) * 0xD1B54A32D192ED03ULL;
  mixed ^= mixed >> 29;
  mixed *= 0xBF58476D1CE4E5B9ULL;
  mixed ^= mixed >> 32;
  const double scale = std::pow(10.0, static_cast<double>(mixed % 7));
  const double value = static_cast<double>(static_cast<std::int64_t>(mixed >> 8) % 1'000'003);
  return narrow<T>(
      static_cast<decltype(wide(T{}))>(value / 1'000'003 * scale * (mixed & 128 ? -1 : 1)));
}

/// The sum of ranks `first` to `last`, one after the other, rounded to T once.
template <class T>
T folded(int first, int last, std::uint64_t id) {
  auto sum = wide(given<T>(first, id));
  for (int rank = first + 1; rank <= last; ++rank) sum += wide(given<T>(rank, id));
  return narrow<T>(sum);
}

template <class T>
bool same_bits(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <class T>
constexpr DataType type_of() {
  return std::is_same_v<T, Bf16>    ? DataType::bf16
         : std::is_same_v<T, float> ? DataType::f32
                                    : DataType::f64;
}

/// The sum, rounded once, of the sums of hosts, each of them rounded once.
template <class T>
T folded_by_hosts(const Hosts& hosts, std::uint64_t id) {
  const auto fold = [](const std::vector<T>& terms) {
    auto sum = wide(terms.front());
    for (std::size_t i = 1; i < terms.size(); ++i) sum += wide(terms[i]);
    return narrow<T>(sum);
  };
  std::vector<T> sums;
  for (int host = 0; host < hosts.count(); ++host) {
    std::vector<T> of_host;
    for (const Rank rank : hosts.on(host))
      of_host.push_back(given<T>(static_cast<int>(rank.value()), id));
    sums.push_back(fold(of_host));
  }
  return fold(sums);
}

/// One call on elements `first` ... of the series; the number of elements that are wrong.
template <class T>
std::size_t wrong_in(Communicator& world, Collective collective, std::size_t count,
                     std::uint64_t first, bool in_place, int root) {
  const int p = world.size(), self = world.rank();
  const bool scatters = collective == Collective::reduce_scatter;
  const std::size_t all = scatters ? count * static_cast<std::size_t>(p) : count;
  std::vector<T> input(all), separate(in_place ? 0 : count, T{});
  for (std::size_t i = 0; i < all; ++i) input[i] = given<T>(self, first + i);
  Request request{.collective = collective, .type = type_of<T>(), .root = root};
  request.input = input.data(), request.input_count = Elements{all};
  request.output = in_place ? input.data() + (scatters ? count * static_cast<std::size_t>(self) : 0)
                            : separate.data();
  request.output_count = Elements{count};
  if (collective == Collective::reduce && self != root && !in_place)
    request.output = nullptr, request.output_count = Elements{0};
  world.run(request);
  if ((collective == Collective::reduce && self != root) ||
      (collective == Collective::exscan && self == 0))
    return 0;
  const auto* const got = static_cast<const T*>(request.output);
  const int last = collective == Collective::scan     ? self
                   : collective == Collective::exscan ? self - 1
                                                      : p - 1;
  const std::uint64_t from = first + (scatters ? count * static_cast<std::size_t>(self) : 0);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) wrong += !same_bits(got[i], folded<T>(0, last, from + i));
  return wrong;
}

constexpr Collective sums[] = {Collective::all_reduce, Collective::reduce,
                               Collective::reduce_scatter, Collective::scan, Collective::exscan};

template <class T>
void expect_folds(Communicator& world, std::size_t count) {
  std::uint64_t first = 0;
  for (const Collective collective : sums)
    for (const bool in_place : {false, true}) {
      first += 12'345;
      ASSERT_EQ(wrong_in<T>(world, collective, count, first, in_place, world.size() - 1), 0u)
          << name_of(collective) << " of " << count << " on " << world.size() << " ranks"
          << (in_place ? ", in place" : "");
    }
}

struct Spread {
  int ranks, hosts;
};

class ReproducibleSums : public ::testing::TestWithParam<Spread> {
 protected:
  static Settings settings() {
    Settings settings = bounded_settings();
    settings.virtual_hosts = GetParam().hosts > 1 ? GetParam().hosts : 0;
    settings.reproducible = Reproducible::rank_order;
    return settings;
  }
};

std::vector<Spread> spreads() {
  if (sanitized) return {{2, 1}, {4, 2}, {5, 3}};
  return {{2, 1}, {3, 1}, {4, 2},  {5, 1},  {5, 3}, {8, 1},
          {8, 2}, {8, 4}, {12, 3}, {17, 1}, {33, 1}};
}

INSTANTIATE_TEST_SUITE_P(All, ReproducibleSums, ::testing::ValuesIn(spreads()),
                         [](const auto& test) {
                           return fmt::format("{}On{}", test.param.ranks, test.param.hosts);
                         });

TEST_P(ReproducibleSums, AreFoldsAtEveryLengthAndPlace) {
  on_threads(GetParam().ranks, settings(), [](Communicator& world) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{7}, std::size_t{1'000}}) {
      expect_folds<float>(world, count);
      expect_folds<double>(world, count);
      expect_folds<Bf16>(world, count);
    }
    const std::size_t longest = sanitized ? 20'001 : 200'001;
    ASSERT_EQ(wrong_in<float>(world, Collective::all_reduce, longest, 3, false, 0), 0u);
    ASSERT_EQ(wrong_in<Bf16>(world, Collective::all_reduce, longest, 5, true, 0), 0u);
  });
}

/// One by one, as the choice takes few of them.
TEST_P(ReproducibleSums, AreThoseOfEveryAlgorithmThatPromisesThem) {
  on_threads(GetParam().ranks, settings(), [](Communicator& world) {
    const Hosts hosts = virtual_hosts(world.size(), settings());
    for (const Collective collective : sums)
      for (const Algorithm& algorithm : algorithms(collective)) {
        const Guarantees& promised = algorithm.guarantees;
        if (!(promised.left_fold || promised.rank_ordered_sum) || !algorithm.suits(hosts)) continue;
        Communicator forced =
            world.with_algorithm(fmt::format("{}:{}", name_of(collective), algorithm.name));
        for (const std::size_t count : {std::size_t{3}, std::size_t{9'001}})
          EXPECT_EQ(wrong_in<float>(forced, collective, count, count, false, 0), 0u)
              << algorithm.name << ", " << count;
        if (promised.rank_ordered_sum) {
          EXPECT_EQ(wrong_in<Bf16>(forced, collective, 100, 9, true, 0), 0u) << algorithm.name;
        }
      }
  });
}

/// While the autotuner tries candidates, and after it has decided.
TEST_P(ReproducibleSums, StayFoldsWhileCandidatesAreTried) {
  on_threads(GetParam().ranks, settings(), [](Communicator& world) {
    for (std::uint64_t call = 0; call < (sanitized ? 20 : 150); ++call)
      for (const Collective collective : sums)
        ASSERT_EQ(wrong_in<float>(world, collective, 300, call, call % 2 == 0, 0), 0u)
            << name_of(collective) << ", call " << call;
  });
}

/// The elements of an all_reduce that are not the sums of the hosts' sums, of those that this rank
/// looks at: all ranks get the same.
template <class T>
std::size_t unlike_hosts_sums(Communicator& world, const Hosts& hosts, std::size_t count,
                              std::uint64_t first, const Reducer& reducer) {
  std::vector<T> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = given<T>(world.rank(), first + i);
  Request request{.collective = Collective::all_reduce, .type = type_of<T>(), .reducer = reducer};
  request.input = request.output = data.data();
  request.input_count = request.output_count = Elements{count};
  world.run(request);
  std::size_t wrong = 0;
  const auto ranks = static_cast<std::size_t>(world.size());
  for (std::size_t i = static_cast<std::size_t>(world.rank()); i < count; i += ranks)
    wrong += !same_bits(data[i], folded_by_hosts<T>(hosts, first + i));
  return wrong;
}

/// Between hosts elements of one shape need no order of ranks: adding the sums of hosts costs
/// nothing. By level of the communicator or of the call.
TEST_P(ReproducibleSums, OfOneShapeAreThoseOfHosts) {
  Settings plain = settings();
  plain.reproducible = Reproducible::run;
  on_threads(GetParam().ranks, plain, [&](Communicator& world) {
    const Hosts hosts = virtual_hosts(world.size(), settings());
    Communicator kept = world.with_reproducible(Reproducible::shape);
    const Reducer of_call = Reducer{ReduceOp::sum}.kept(Reproducible::shape);
    for (const std::size_t count : {std::size_t{1}, std::size_t{7}, std::size_t{1'000},
                                    std::size_t{sanitized ? 20'001 : 100'001}})
      for (const auto& [by, reducer] : {std::pair{&kept, Reducer{}}, {&world, of_call}}) {
        EXPECT_EQ(unlike_hosts_sums<float>(*by, hosts, count, 3, reducer), 0u) << count;
        EXPECT_EQ(unlike_hosts_sums<double>(*by, hosts, count, 5, reducer), 0u) << count;
        EXPECT_EQ(unlike_hosts_sums<Bf16>(*by, hosts, count, 7, reducer), 0u) << count;
      }
  });
}

TEST_P(ReproducibleSums, MayBeAskedForByCall) {
  Settings plain = settings();
  plain.reproducible = Reproducible::run;
  on_threads(GetParam().ranks, plain, [](Communicator& world) {
    for (const std::size_t count : {std::size_t{5}, std::size_t{3'001}}) {
      std::vector<float> data(count);
      for (std::size_t i = 0; i < count; ++i) data[i] = given<float>(world.rank(), i);
      world.all_reduce(data, Reducer{}.kept(Reproducible::rank_order));
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_TRUE(same_bits(data[i], folded<float>(0, world.size() - 1, i))) << i;
    }
  });
}

Request small_sum(std::span<float> data) {
  return request::in_place(Collective::all_reduce, data);
}

TEST(Reproducible, ARuleThatWouldBreakItIsPassedOver) {
  Settings settings = bounded_settings();
  settings.algorithm = "all_reduce:ring";
  on_threads(3, settings, [](Communicator& world) {
    std::vector<float> data(100);
    EXPECT_EQ(world.algorithm(small_sum(data)), "ring");
    Communicator kept = world.with_reproducible(Reproducible::shape);
    EXPECT_NE(kept.algorithm(small_sum(data)), "ring");
    EXPECT_EQ(wrong_in<float>(kept, Collective::all_reduce, 100, 0, true, 0), 0u);
    std::vector<int> integers(100);
    EXPECT_EQ(kept.algorithm(request::in_place(Collective::all_reduce, std::span{integers})),
              "ring")
        << "integers do not round";
    EXPECT_EQ(world.algorithm(small_sum(data)), "ring") << "the communicator is as it was";
  });
}

/// Files of schedules promise what their proof has found, whatever they claim.
TEST(Reproducible, FilesRunWhereTheirSumsAreOneReduction) {
  const auto added = [](const char* of, const char* name) {
    auto set =
        schedule_set(algorithm_named(Collective::all_reduce, of), 4, {.count = Elements{12}});
    set.algorithm = name;
    set.guarantees.rank_ordered_sum = true;
    add_schedule_text(to_json(set), "text");
  };
  added("direct", "fold_of_a_file");
  added("recursive_doubling", "pairs_of_a_file");
  on_threads(4, bounded_settings(), [](Communicator& world) {
    std::vector<float> data(12);
    for (const auto& [name, runs] :
         {std::pair{"fold_of_a_file", true}, {"pairs_of_a_file", false}}) {
      Communicator kept = world.with_algorithm(fmt::format("all_reduce:{}", name))
                              .with_reproducible(Reproducible::placement);
      EXPECT_EQ(kept.algorithm(small_sum(data)) == name, runs) << name;
      EXPECT_EQ(wrong_in<float>(kept, Collective::all_reduce, 12, 0, false, 0), 0u) << name;
    }
  });
}

/// Else each would choose for itself.
TEST(Reproducible, RanksThatAskForDifferentLevelsAreTold) {
  on_threads(3, bounded_settings(), [](Communicator& world) {
    const auto ask = [&] {
      static_cast<void>(
          world.with_reproducible(world.rank() == 1 ? Reproducible::shape : Reproducible::run));
    };
    try {
      ask();
      ADD_FAILURE() << "rank " << world.rank();
    } catch (const Mismatch& error) {
      EXPECT_THAT(error.what(), HasSubstr("on all ranks"));
    }
    EXPECT_EQ(wrong_in<float>(world, Collective::all_reduce, 9, 0, false, 0), 0u)
        << "the communicator goes on";
  });
}

TEST(Reproducible, CallsThatAskForDifferentLevelsAreTold) {
  on_threads(3, bounded_settings(), [](Communicator& world) {
    std::vector<float> data(5);
    try {
      world.all_reduce(data, world.rank() == 1 ? Reducer{}.kept(Reproducible::shape) : Reducer{});
      ADD_FAILURE() << "rank " << world.rank();
    } catch (const Mismatch& error) {
      EXPECT_THAT(error.what(), HasSubstr("bits by shape"));
    }
  });
}

TEST(Reproducible, LevelsAreReadByName) {
  Settings settings;
  settings.set("reproducible", "rank_order");
  EXPECT_EQ(settings.reproducible, Reproducible::rank_order);
  EXPECT_EQ(name_of(settings.reproducible), "rank_order");
  try {
    settings.set("reproducible", "partition");
    ADD_FAILURE() << "no plain call can promise it";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("expected none, run, shape, placement or rank_order"));
  }
}

}  // namespace
}  // namespace capstan
