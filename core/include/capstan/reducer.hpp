// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "capstan/export.hpp"
#include "capstan/reproducible.hpp"
#include "capstan/types.hpp"

namespace CAPSTAN_EXPORT capstan {

/// A reduction operation that the user has defined.
struct UserOperation {
  std::string name;  ///< equal on all ranks; named in errors
  DataType type;
  /// If false, only algorithms that combine in the order of ranks are chosen. The operation has to
  /// be associative in any case.
  bool commutative = true;
  /// accumulator[i] = accumulator[i] ⊕ next[i] for `count` elements. Called from any thread that
  /// moves operations on, with elements of `type`; must not call Capstan. What it throws ends the
  /// call, and the communicator, on all ranks with an Aborted that has the text.
  std::function<void(void* accumulator, const void* next, std::size_t count)> accumulate;
  /// The elements of `type` that make one operand, of 256 bytes at most: all counts of a call are
  /// in operands then. So u8 and 16 stand for any type of 16 bytes. The same on all ranks.
  std::size_t width = 1;
};

/// The way in which elements of different ranks are combined: one of the built-in operations, a sum
/// of scaled inputs, or an operation that the user has defined. Cheap to copy.
class Reducer {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): `all_reduce(in, out, ReduceOp::max)` reads well
  Reducer(ReduceOp op = ReduceOp::sum) : op_(op) {}

  /// The sum of each rank's input times that rank's own factor, rounded to the type before it is
  /// added. Integers are multiplied by the factor rounded towards zero.
  static Reducer premultiplied_sum(double factor) {
    Reducer reducer{ReduceOp::sum};
    reducer.factor_ = factor;
    reducer.scales_ = true;
    return reducer;
  }

  /// combine(a, b) for elements a of a lower and b of a higher rank. Make a reducer once and use it
  /// for many calls: plans are kept for the next call with the same reducer.
  template <Element T, class Combine>
  static Reducer of(std::string name, Combine combine, bool commutative = true) {
    UserOperation operation{std::move(name), *data_type_of<T>, commutative, nullptr};
    if (!is_empty(combine))
      operation.accumulate = [combine = std::move(combine)](void* accumulator, const void* next,
                                                            std::size_t count) {
        T* a = static_cast<T*>(accumulator);
        const T* b = static_cast<const T*>(next);
        for (std::size_t i = 0; i < count; ++i) a[i] = combine(a[i], b[i]);
      };
    return of(std::move(operation));
  }
  /// Calls refuse an operation without a function with InvalidArgument.
  static Reducer of(UserOperation operation) {
    Reducer reducer;
    reducer.user_ = std::make_shared<const UserOperation>(std::move(operation));
    return reducer;
  }

  /// The same for calls that keep this promise, whatever their communicator's setting is (see
  /// Settings::reproducible). All ranks pass the same.
  Reducer kept(Reproducible promise) const {
    Reducer reducer = *this;
    reducer.promise_ = static_cast<std::uint8_t>(static_cast<std::uint8_t>(promise) + 1);
    return reducer;
  }

  ReduceOp op() const { return op_; }
  /// Empty: the communicator's.
  std::optional<Reproducible> promise() const {
    return promise_ == 0 ? std::nullopt : std::optional{static_cast<Reproducible>(promise_ - 1)};
  }
  bool scales() const { return scales_; }
  double factor() const { return factor_; }
  const std::shared_ptr<const UserOperation>& user() const { return user_; }
  bool operator==(const Reducer&) const = default;

 private:
  /// Whether `combine` is an empty std::function or a null pointer to a function.
  template <class Combine>
  static bool is_empty(const Combine& combine) {
    if constexpr (std::is_pointer_v<Combine> || requires { combine.operator bool(); })
      return !combine;
    else
      return false;
  }

  ReduceOp op_ = ReduceOp::sum;
  bool scales_ = false;
  std::uint8_t promise_ = 0;  // of a Reproducible, plus 1
  double factor_ = 1;
  std::shared_ptr<const UserOperation> user_;
};

}  // namespace CAPSTAN_EXPORT capstan
