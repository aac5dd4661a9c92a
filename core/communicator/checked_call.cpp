// SPDX-License-Identifier: Apache-2.0
#include "core/communicator/checked_call.hpp"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "capstan/error.hpp"

namespace capstan {
namespace {

/// Several operands fit each buffer that a call is cut for.
constexpr Bytes longest_operand{256};

class Checker {
 public:
  Checker(const Request& request, int rank, int ranks)
      : request_(request), rank_(rank), ranks_(ranks) {}

  CheckedCall check() const {
    check_kinds();
    check_stream();
    check_root();
    check_operation();
    Call call{.collective = request_.collective,
              .type = request_.type,
              .foreign = request_.foreign,
              .op = reduces(request_.collective) ? request_.reducer.op() : ReduceOp::sum,
              .shape = shape(),
              .user = reduces(request_.collective) ? request_.reducer.user() : nullptr};
    if (rounds(call)) call.promise = request_.reducer.promise();
    check_buffers(call);
    return place(std::move(call));
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    throw InvalidArgument(fmt::format("rank {}: {}: {}", rank_, name_of(request_.collective),
                                      fmt::format(text, std::forward<Args>(args)...)));
  }

  void check_kinds() const {
    const auto is_one_of = [](auto kind, const auto& all) {
      return static_cast<std::size_t>(kind) < all.size();
    };
    if (!is_one_of(request_.collective, all_collectives()))
      throw InvalidArgument(fmt::format("rank {}: Request::collective: {} is no collective", rank_,
                                        static_cast<int>(request_.collective)));
    if (!is_one_of(request_.type, all_data_types()))
      refuse("the type {} does not exist: pass a DataType", static_cast<int>(request_.type));
    if (request_.foreign.code != 0 && request_.type != DataType::u8)
      refuse("elements of a foreign type travel as u8, not {}", name_of(request_.type));
    if (reduces(request_.collective) && !is_one_of(request_.reducer.op(), all_reduce_ops()))
      refuse("the operation {} does not exist: pass a ReduceOp",
             static_cast<int>(request_.reducer.op()));
  }

  void check_stream() const {
    if (request_.stream)
      throw InvalidArgument(
          fmt::format("rank {}: {}: only Communicator::run() and start() put a call into a stream: "
                      "pass no stream here, and wait for the stream's work on the buffers before "
                      "the call",
                      rank_, name_of(request_.collective)),
          ErrorCode::not_supported);
  }

  void check_root() const {
    if (has_root(request_.collective) && (request_.root < 0 || request_.root >= ranks_))
      refuse("root {} does not exist: ranks are 0 to {}", request_.root, ranks_ - 1);
  }

  void check_operation() const {
    if (!reduces(request_.collective)) return;
    const auto& user = request_.reducer.user();
    if (user && !user->accumulate)
      refuse("the operation '{}' has no function: UserOperation::accumulate is empty", user->name);
    if (user &&
        (user->width < 1 || user->width > longest_operand.value() / size_of(user->type).value()))
      refuse("operands of the operation '{}' have {} bytes: 1 to {} are possible", user->name,
             size_of(user->type).value() * user->width, longest_operand.value());
    if (user && user->type != request_.type)
      refuse("the operation '{}' is for {}, not {}", user->name, name_of(user->type),
             name_of(request_.type));
    const std::string why =
        user ? "" : why_undefined(request_.collective, request_.type, request_.reducer.op());
    if (!why.empty()) refuse("{}", why);
    const double factor = request_.reducer.factor();
    if (request_.reducer.scales() && is_integer(request_.type) && !(std::abs(factor) < 0x1p63))
      refuse("{} cannot be multiplied by {}: the factor must lie between -2^63 and 2^63",
             name_of(request_.type), factor);
  }

  Shape shape() const {
    Shape shape{.root = has_root(request_.collective) ? request_.root : 0};
    if (has_counts(request_.collective))
      shape.counts = request_.counts;
    else
      shape.count = checked_count();
    const std::size_t wanted =
        has_counts(request_.collective) ? static_cast<std::size_t>(ranks_) : 0;
    if (shape.counts.size() != wanted || (request_.collective == Collective::all_to_all_v &&
                                          request_.receive_counts.size() != wanted))
      refuse("{} lengths were given: pass one for each of the {} ranks", shape.counts.size(),
             ranks_);
    check_total("counts", request_.counts);
    check_total("receive_counts", request_.receive_counts);
    return shape;
  }

  /// The largest buffer of any rank can be addressed: what is computed from counts does not
  /// overflow.
  Elements checked_count() const {
    const Elements given = count();
    const bool has_blocks =
        Contract{request_.collective, Shape{.count = Elements{1}}, ranks_}.extent() > Elements{1};
    if (given > most_elements() / (has_blocks ? static_cast<std::uint64_t>(ranks_) : 1))
      refuse("the count of {} elements{} exceeds the memory of any process", given.value(),
             has_blocks ? " of each rank" : "");
    return given;
  }

  void check_total(std::string_view name, const std::vector<Elements>& counts) const {
    if (!has_counts(request_.collective)) return;
    Elements left = most_elements();
    for (const Elements count : counts) {
      if (count > left)
        refuse("{}: a length of {} elements exceeds the memory of any process", name,
               count.value());
      left -= count;
    }
  }

  Elements most_elements() const {
    const auto& user = request_.reducer.user();
    const std::uint64_t width = user && reduces(request_.collective) ? user->width : 1;
    return Elements{addressable.value() / size_of(request_.type).value() / width};
  }

  /// Shape::count, from the buffer that every rank passes.
  Elements count() const {
    const auto p = static_cast<std::uint64_t>(ranks_);
    switch (request_.collective) {
      case Collective::broadcast:
      case Collective::scatter:
      case Collective::reduce_scatter:
        return request_.output_count;
      case Collective::all_to_all:
        if (request_.output_count.value() % p != 0)
          refuse("{} elements cannot be cut into {} equal blocks", request_.output_count.value(),
                 p);
        return request_.output_count / p;
      default:
        return request_.input_count;
    }
  }

  BufferLengths lengths(const Call& call) const {
    if (call.collective != Collective::all_to_all_v) return call.contract(ranks_).lengths(rank_);
    const auto sum = [](const std::vector<Elements>& counts) {
      return std::accumulate(counts.begin(), counts.end(), Elements{0});
    };
    return {sum(request_.counts), sum(request_.receive_counts)};
  }

  /// The lengths of this rank's buffers in a call with one element per block: none for a buffer
  /// that the rank does not use at all.
  BufferLengths unit_lengths() const {
    const auto p = static_cast<std::size_t>(ranks_);
    Shape unit{.count = Elements{1}, .root = request_.root};
    if (has_counts(request_.collective)) unit.counts.assign(p * p, Elements{1});
    return Contract{request_.collective, unit, ranks_}.lengths(rank_);
  }
  bool uses_input() const { return unit_lengths().input > Elements{0}; }
  bool uses_output() const { return unit_lengths().output > Elements{0}; }

  /// Buffers that this rank does not use are not checked.
  void check_buffers(const Call& call) const {
    const auto [input, output] = lengths(call);
    const auto fits = [](const void* data, Elements given, Elements needed) {
      return given == needed && (data || given == Elements{0});
    };
    if (!fits(request_.output, request_.output_count, output) && uses_output())
      refuse_buffer("output", request_.output_count, output);
    if (!fits(request_.input, request_.input_count, input) && uses_input())
      refuse_buffer("input", request_.input_count, input);
  }

  [[noreturn]] void refuse_buffer(std::string_view name, Elements given, Elements needed) const {
    if (given != needed)
      refuse("the {} holds {} elements, but {} are needed {}{}", name, given.value(),
             needed.value(), reason_for_length(name), in_place_hint());
    refuse("the {} is null, but is to hold {} elements: pass its memory{}", name, given.value(),
           in_place_hint());
  }

  std::string reason_for_length(std::string_view name) const {
    if (has_counts(request_.collective)) return "by the lengths given";
    const auto [other, count] = name == "output" ? std::pair{"input", request_.input_count}
                                                 : std::pair{"output", request_.output_count};
    return fmt::format("beside an {} of {}", other, count.value());
  }

  std::string_view in_place_hint() const {
    const bool one_is_null = (request_.input == nullptr) != (request_.output == nullptr);
    if (!one_is_null || !uses_input() || !uses_output()) return "";
    return "; an empty buffer does not mean in place: for that, pass the same memory as both";
  }

  CheckedCall place(Call call) const {
    const Bytes element = call.element();
    const auto [input, output] = lengths(call);
    CheckedCall checked{std::move(call), request_.input, request_.output, bytes_of(input, element),
                        bytes_of(output, element)};
    const auto shift = [&](Elements offset) { return bytes_of(offset, element).value(); };
    const auto* const from = static_cast<const std::byte*>(request_.input);
    const auto* const to = static_cast<const std::byte*>(request_.output);
    const bool overlap = from < to + checked.output_bytes.value() &&
                         to < from + checked.input_bytes.value() && input > Elements{0} &&
                         output > Elements{0};
    if (overlap && request_.collective == Collective::all_to_all_v)
      refuse("input and output overlap: it is not done in place, pass memory that is disjoint");
    if (!overlap) return checked;
    const Contract::Placement own = checked.call.contract(ranks_).in_place(rank_);
    if (from + shift(own.output) != to + shift(own.input))
      refuse(
          "input and output overlap: pass memory that is disjoint, or the same for an operation "
          "in place");
    return checked;
  }

  const Request& request_;
  const int rank_, ranks_;
};

}  // namespace

std::string why_undefined(Collective collective, DataType type, ReduceOp op) {
  if (!reduces(collective)) return "";
  if (!supports(type, op))
    return fmt::format("{} is not defined for {}: choose another operation or type", name_of(op),
                       name_of(type));
  const bool prefix = collective == Collective::scan || collective == Collective::exscan;
  if (prefix && op == ReduceOp::average)
    return "average is not defined here: use sum and divide by the number of ranks";
  return "";
}

CheckedCall check(const Request& request, int rank, int ranks) {
  return Checker{request, rank, ranks}.check();
}

}  // namespace capstan
