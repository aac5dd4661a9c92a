// SPDX-License-Identifier: Apache-2.0

// Reproducible sums of random calls on random worlds: each element is compared, bit by bit, with
// one that is computed without the library. A few seeds in the suite; REPRODUCIBLE_SEEDS of them,
// from REPRODUCIBLE_FIRST_SEED on, on more ranks and of longer calls for those who search.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "capstan/request.hpp"
#include "core/engine/world/make_transport.hpp"
#include "tests/ranks/thread_world.hpp"
#include "tests/sanitizers.hpp"
#include "tests/unit/kernels_reference.hpp"

namespace capstan {
namespace {

std::optional<int> number_in(const char* variable) {
  const char* const asked = std::getenv(variable);
  return asked ? std::optional{std::atoi(asked)} : std::nullopt;
}

bool searches() {
  return number_in("REPRODUCIBLE_SEEDS").has_value();
}

constexpr Collective sums[] = {
    Collective::all_reduce,     Collective::all_reduce, Collective::all_reduce, Collective::reduce,
    Collective::reduce_scatter, Collective::scan,       Collective::exscan};
constexpr DataType types[] = {DataType::f16, DataType::bf16, DataType::f32,
                              DataType::f64, DataType::c64,  DataType::c128};

constexpr ReduceOp ops[] = {ReduceOp::sum, ReduceOp::sum, ReduceOp::product, ReduceOp::average};

/// A world and its calls, which follow from a seed.
class Draw {
 public:
  explicit Draw(int seed) : random_(static_cast<unsigned>(seed)) {
    ranks = 2 + below(searches() ? 32 : sanitized ? 4 : 11);
    hosts = below(4) == 0 ? 1 : 1 + below(std::min(ranks, 8));
    network = below(2) == 0 ? Network::tcp : Network::ofi;
  }

  struct Call {
    Collective collective;
    DataType type;
    ReduceOp op;
    Reproducible level;
    std::size_t count;
    std::uint64_t first;  ///< of the series of inputs
    int root;
    bool in_place, by_call;

    std::string text() const {
      return fmt::format("{} of {} x {}, {}, {}{}{}, root {}", name_of(collective), count,
                         name_of(type), name_of(op), name_of(level), in_place ? ", in place" : "",
                         by_call ? ", by call" : "", root);
    }
  };

  Call call() {
    Call call{};
    call.collective = sums[below(std::size(sums))];
    call.type = types[below(std::size(types))];
    call.op = ops[below(std::size(ops))];
    if (call.op == ReduceOp::average &&
        (call.collective == Collective::scan || call.collective == Collective::exscan))
      call.op = ReduceOp::sum;
    if (is_complex(call.type) && call.op == ReduceOp::product) call.op = ReduceOp::sum;
    call.level = below(2) == 0 ? Reproducible::rank_order : Reproducible::shape;
    call.count = count(call.collective);
    call.first = static_cast<std::uint64_t>(below(1 << 20));
    call.root = below(ranks);
    call.in_place = below(2) == 0;
    call.by_call = below(2) == 0;
    return call;
  }

  std::string text() const {
    return fmt::format("{} ranks on {} hosts over {}", ranks, hosts,
                       network == Network::tcp ? "tcp" : "ofi");
  }
  int below(std::size_t limit) { return static_cast<int>(random_() % limit); }

  int ranks, hosts;
  Network network;

 private:
  /// As many short ones as long ones. Each rank computes a scan's reference for itself.
  std::size_t count(Collective collective) {
    const auto all = static_cast<std::size_t>(ranks);
    const bool alone = collective == Collective::scan || collective == Collective::exscan;
    const std::size_t most = !searches() ? (sanitized ? 2'000 : 30'000)
                             : alone     ? 100'000
                                         : std::min<std::size_t>(4 << 20, (48 << 20) / all / all);
    const auto bits = static_cast<std::size_t>(std::bit_width(most));
    return 1 + (random_() >> 8) % ((std::size_t{1} << below(bits)) * 2 - 1);
  }

  std::mt19937 random_;
};

/// Element `id` of the series that `rank` gives: of seven decades; for products near 1.
template <class T>
T given(ReduceOp op, int rank, std::uint64_t id) {
  std::uint64_t mixed =
      (id + 1) * 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(rank) * 0xD1B54A32D192ED03ULL;
  mixed ^= mixed >> 29;
  mixed *= 0xBF58476D1CE4E5B9ULL;
  mixed ^= mixed >> 32;
  const std::uint64_t exponent = op == ReduceOp::product ? 1022 + mixed % 2 : 1011 + mixed % 24;
  const auto value = std::bit_cast<double>((mixed & 64) << 57 | exponent << 52 | mixed >> 12);
  return reference::narrow<T>(static_cast<decltype(reference::widen(T{}))>(value));
}

/// The references of one call of all ranks, which compute a share each.
template <class T>
class Expected {
 public:
  Expected(const Hosts& hosts, const Draw::Call& call) : hosts_(hosts), call_(call) {}

  /// Contributions 0 .. `last` of an element, in the order of ranks, rounded once.
  T fold(int last, std::uint64_t id) const {
    std::vector<T> terms;
    for (int rank = 0; rank <= last; ++rank) terms.push_back(given<T>(call_.op, rank, id));
    const int ranks = hosts_.ranks();
    return reference::reduce<T>(call_.op, terms, static_cast<std::uint32_t>(ranks));
  }
  /// The sum of the sums of hosts.
  T of_hosts(std::uint64_t id) const {
    std::vector<T> by_host;
    for (int host = 0; host < hosts_.count(); ++host) {
      std::vector<T> terms;
      for (const Rank rank : hosts_.on(host))
        terms.push_back(given<T>(call_.op, static_cast<int>(rank.value()), id));
      by_host.push_back(reference::reduce<T>(call_.op, terms, 1));
    }
    return reference::reduce<T>(call_.op, by_host, static_cast<std::uint32_t>(hosts_.ranks()));
  }
  T at(int last, std::uint64_t id) const {
    const bool by_hosts = call_.level == Reproducible::shape && !hosts_.single() &&
                          hosts_.count() < hosts_.ranks() &&
                          call_.collective == Collective::all_reduce;
    return by_hosts ? of_hosts(id) : fold(last, id);
  }

 private:
  const Hosts& hosts_;
  const Draw::Call& call_;
};

/// One rank's part in a call, which is compared with what it shall be. Of complex numbers T is that
/// of their parts, which are added apart.
template <class T>
class Part {
 public:
  Part(Communicator& world, const Hosts& hosts, const Draw::Call& call, std::vector<std::byte>& all)
      : world_(world), call_(call), expected_(hosts, call), all_(all) {}

  std::size_t wrong(DataType type, Communicator& kept) {
    const std::size_t width = is_complex(type) ? 2 : 1, count = call_.count * width;
    const bool scatters = call_.collective == Collective::reduce_scatter;
    const auto self = static_cast<std::size_t>(world_.rank());
    std::vector<T> input(scatters ? count * static_cast<std::size_t>(world_.size()) : count);
    for (std::size_t i = 0; i < input.size(); ++i)
      input[i] = given<T>(call_.op, world_.rank(), call_.first + i);
    std::vector<T> output(call_.in_place ? 0 : count);
    Request request{.collective = call_.collective, .type = type, .root = call_.root};
    request.reducer = call_.op;
    if (call_.by_call) request.reducer = request.reducer.kept(call_.level);
    request.input = input.data(), request.input_count = Elements{input.size() / width};
    T* const result = call_.in_place ? input.data() + (scatters ? count * self : 0) : output.data();
    request.output = result, request.output_count = Elements{call_.count};
    const bool away = call_.collective == Collective::reduce && world_.rank() != call_.root;
    if (away && !call_.in_place) request.output = nullptr, request.output_count = Elements{0};
    (call_.by_call ? world_ : kept).run(request);
    return compare({result, count}, away);
  }

 private:
  std::size_t compare(std::span<const T> got, bool away) {
    const int self = world_.rank(), last = world_.size() - 1;
    if (call_.collective == Collective::scan) return unlike(got, call_.first, self);
    if (call_.collective == Collective::exscan)
      return self == 0 ? 0 : unlike(got, call_.first, self - 1);
    if (call_.collective == Collective::reduce_scatter)
      return unlike(got, call_.first + got.size() * static_cast<std::size_t>(self), last);
    const auto ranks = static_cast<std::size_t>(world_.size());
    const std::size_t from = got.size() * static_cast<std::size_t>(self) / ranks,
                      to = got.size() * (static_cast<std::size_t>(self) + 1) / ranks;
    T* const shared = reinterpret_cast<T*>(all_.data());
    for (std::size_t i = from; i < to; ++i) shared[i] = expected_.at(last, call_.first + i);
    world_.barrier();  // all shares are there
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < got.size() && !away; ++i)
      wrong += std::memcmp(&got[i], shared + i, sizeof(T)) != 0;
    world_.barrier();  // nobody reads them any more
    return wrong;
  }

  std::size_t unlike(std::span<const T> got, std::uint64_t first, int last) const {
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const T expected = expected_.at(last, first + i);
      wrong += std::memcmp(&got[i], &expected, sizeof(T)) != 0;
    }
    return wrong;
  }

  Communicator& world_;
  const Draw::Call& call_;
  const Expected<T> expected_;
  std::vector<std::byte>& all_;
};

std::size_t wrong_in(Communicator& world, Communicator& kept, const Hosts& hosts,
                     const Draw::Call& call, std::vector<std::byte>& all) {
  const auto wrong = [&]<class T>(T) {
    return Part<T>{world, hosts, call, all}.wrong(call.type, kept);
  };
  switch (call.type) {
    case DataType::f16:
      return wrong(Float16{});
    case DataType::bf16:
      return wrong(BFloat16{});
    case DataType::f32:
    case DataType::c64:
      return wrong(float{});
    default:
      return wrong(double{});
  }
}

TEST(ReproducibleCalls, HaveTheBitsThatTheirLevelPromises) {
  const int first = number_in("REPRODUCIBLE_FIRST_SEED").value_or(0);
  const int seeds = number_in("REPRODUCIBLE_SEEDS").value_or(sanitized ? 2 : 12);
  constexpr int calls_each = 8;
  std::uint64_t elements = 0;
  for (int seed = first; seed < first + seeds; ++seed) {
    Draw draw{seed};
    std::vector<Draw::Call> calls;
    for (int i = 0; i < calls_each; ++i) calls.push_back(draw.call());
    Settings settings = bounded_settings();
    settings.virtual_hosts = draw.hosts > 1 ? draw.hosts : 0;
    settings.network = draw.network;
    std::size_t longest = 0;
    for (const Draw::Call& call : calls)
      longest = std::max(longest, call.count), elements += call.count;
    std::vector<std::byte> all(longest * 2 * sizeof(double));
    std::atomic<std::size_t> wrong = 0;
    on_threads(draw.ranks, settings, [&](Communicator& world) {
      const Hosts hosts = virtual_hosts(world.size(), settings);
      Communicator shape = world.with_reproducible(Reproducible::shape);
      Communicator order = world.with_reproducible(Reproducible::rank_order);
      for (const Draw::Call& call : calls) {
        Communicator& kept = call.level == Reproducible::shape ? shape : order;
        const std::size_t found = wrong_in(world, kept, hosts, call, all);
        wrong += found;
        EXPECT_EQ(found, 0u) << "seed " << seed << ", " << draw.text() << ": rank " << world.rank()
                             << ", " << call.text();
      }
    });
    if (searches()) fmt::print("seed {}: {}: {} elements wrong\n", seed, draw.text(), wrong.load());
    std::fflush(stdout);
  }
  if (searches()) fmt::print("{} worlds, {} elements\n", seeds, elements);
}

}  // namespace
}  // namespace capstan
