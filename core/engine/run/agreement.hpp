// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <type_traits>
#include <vector>

#include "capstan/by_rank.hpp"
#include "core/schedule/lowering/call.hpp"

namespace capstan {

/// How the answers of all ranks become one result, the same on all of them.
enum class Combine : std::uint8_t {
  least,     ///< element by element
  greatest,  ///< element by element
  all        ///< one after another, in the order of ranks
};

/// A few bytes that all ranks agree on before they continue: each rank gives an answer of `count`
/// elements, and all get the same result.
struct Agreement {
  std::string_view subject{};  ///< names it where several are under way, as in a store
  Combine combine = Combine::least;
  DataType type = DataType::u8;
  std::size_t count = 1;  ///< elements of each answer
  Purpose purpose = Purpose::caller;
  std::shared_ptr<const Call> about{};  ///< the call that it comes before, if any

  Bytes answer_bytes() const { return bytes_of(Elements{count}, size_of(type)); }
  Bytes result_bytes(int ranks) const {
    return combine == Combine::all ? answer_bytes() * static_cast<std::uint64_t>(ranks)
                                   : answer_bytes();
  }
  /// The collective call that carries it out.
  Call call() const;
};

/// Carries out agreements and waits for their results: by a collective of the communicator, or by
/// the store while there is no communicator yet.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual int ranks() const = 0;
  /// All ranks call it with the same agreement. `answer` holds answer_bytes(), `result` gets
  /// result_bytes(). Throws the errors of a communicator or of a store.
  virtual void run(const Agreement& agreement, const void* answer, void* result) = 0;
};

/// The result of an agreement on bytes (the least, or all) whose answers are here.
void combine(const Agreement& agreement, const ByRank<std::vector<std::byte>>& answers,
             void* result);

/// Whether the answer of every rank is true.
bool holds_everywhere(Exchange& exchange, bool answer, std::string_view subject,
                      Purpose purpose = Purpose::caller);

/// The answers of all ranks.
template <class T>
  requires std::is_trivially_copyable_v<T>
ByRank<T> gather_answers(Exchange& exchange, const T& answer, std::string_view subject,
                         Purpose purpose = Purpose::caller) {
  ByRank<T> all(exchange.ranks());
  exchange.run(
      {.subject = subject, .combine = Combine::all, .count = sizeof(T), .purpose = purpose},
      &answer, &*all.begin());
  return all;
}

/// Memory of an agreement that waits for its turn in the queue of an engine. `Range` is a
/// contiguous container.
template <class Range>
struct Answers {
  Range own{}, result{};
};

}  // namespace capstan
