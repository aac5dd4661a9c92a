#include "core/api/checked_call.hpp"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "capstan/error.hpp"

namespace capstan {
namespace {

class Checker {
 public:
  Checker(const Request& request, int rank, int ranks)
      : request_(request), rank_(rank), ranks_(ranks) {}

  CheckedCall check() const {
    check_stream();
    check_root();
    check_operation();
    Call call{.collective = request_.collective,
              .type = request_.type,
              .op = request_.reducer.op(),
              .shape = shape(),
              .user = reduces(request_.collective) ? request_.reducer.user() : nullptr};
    check_lengths(call);
    return place(std::move(call));
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    throw InvalidArgument(fmt::format("rank {}: {}: {}", rank_, name_of(request_.collective),
                                      fmt::format(text, std::forward<Args>(args)...)));
  }

  bool in_place() const { return request_.input == nullptr && request_.output != nullptr; }

  void check_stream() const {
    if (request_.stream)
      refuse(
          "streams of devices are not supported: pass no stream, and wait for the stream's work on "
          "the buffers before the call");
  }

  void check_root() const {
    if (has_root(request_.collective) && (request_.root < 0 || request_.root >= ranks_))
      refuse("root {} does not exist: ranks are 0 to {}", request_.root, ranks_ - 1);
  }

  void check_operation() const {
    if (!reduces(request_.collective)) return;
    const auto& user = request_.reducer.user();
    if (user && user->type != request_.type)
      refuse("the operation '{}' is for {}, not {}", user->name, name_of(user->type),
             name_of(request_.type));
    if (!user && !supports(request_.type, request_.reducer.op()))
      refuse("{} is not defined for {}: choose another operation or type",
             name_of(request_.reducer.op()), name_of(request_.type));
    const bool prefix =
        request_.collective == Collective::scan || request_.collective == Collective::exscan;
    const double factor = request_.reducer.factor();
    if (request_.reducer.scales() && is_integer(request_.type) && !(std::abs(factor) < 0x1p63))
      refuse("{} cannot be multiplied by {}: the factor must lie between -2^63 and 2^63",
             name_of(request_.type), factor);
    if (!user && prefix && request_.reducer.op() == ReduceOp::average)
      refuse("average is not defined here: use sum and divide by the number of ranks");
  }

  Shape shape() const {
    Shape shape{.root = has_root(request_.collective) ? request_.root : 0};
    if (has_counts(request_.collective))
      shape.counts = request_.counts;
    else
      shape.count = count();
    const std::size_t wanted =
        has_counts(request_.collective) ? static_cast<std::size_t>(ranks_) : 0;
    if (shape.counts.size() != wanted || (request_.collective == Collective::all_to_all_v &&
                                          request_.receive_counts.size() != wanted))
      refuse("{} lengths were given: pass one for each of the {} ranks", shape.counts.size(),
             ranks_);
    return shape;
  }

  /// Shape::count, from the buffer that every rank passes.
  Elements count() const {
    const auto p = static_cast<std::uint64_t>(ranks_);
    switch (request_.collective) {
      case Collective::broadcast:
      case Collective::scatter:
        return request_.output_count;
      case Collective::reduce_scatter:
        return in_place() ? request_.output_count / p : request_.output_count;
      case Collective::all_to_all:
        if (request_.output_count.value() % p != 0)
          refuse("{} elements cannot be cut into {} equal blocks", request_.output_count.value(),
                 p);
        return request_.output_count / p;
      case Collective::all_gather:
        return in_place() ? request_.output_count / p : request_.input_count;
      default:
        return in_place() ? request_.output_count : request_.input_count;
    }
  }

  BufferLengths lengths(const Call& call) const {
    if (call.collective != Collective::all_to_all_v) return call.contract(ranks_).lengths(rank_);
    const auto sum = [](const std::vector<Elements>& counts) {
      return std::accumulate(counts.begin(), counts.end(), Elements{0});
    };
    return {sum(request_.counts), sum(request_.receive_counts)};
  }

  /// Buffers that this rank does not use are not checked.
  void check_lengths(const Call& call) const {
    const auto [input, output] = lengths(call);
    if (output > Elements{0} && request_.output_count != output && !in_place())
      refuse("the output holds {} elements, but {} are needed", request_.output_count.value(),
             output.value());
    if (in_place()) {
      const Elements whole = std::max(input, output);
      if (request_.output_count != whole && whole > Elements{0})
        refuse("the buffer holds {} elements, but {} are needed", request_.output_count.value(),
               whole.value());
      return;
    }
    if (input > Elements{0} && request_.input_count != input)
      refuse("the input holds {} elements, but {} are needed", request_.input_count.value(),
             input.value());
  }

  CheckedCall place(Call call) const {
    const Bytes element = call.element();
    const auto [input, output] = lengths(call);
    CheckedCall checked{call, request_.input, request_.output, bytes_of(input, element),
                        bytes_of(output, element)};
    const bool exchange = call.collective == Collective::all_to_all_v;
    const Contract::Placement own =
        exchange ? Contract::Placement{} : checked.call.contract(ranks_).in_place(rank_);
    const auto shift = [&](Elements offset) { return bytes_of(offset, element).value(); };
    if (in_place()) {
      auto* const shared = static_cast<std::byte*>(request_.output);
      checked.input = shared + shift(own.input);
      checked.output = shared + shift(own.output);
      return checked;
    }
    const auto* const from = static_cast<const std::byte*>(request_.input);
    const auto* const to = static_cast<const std::byte*>(request_.output);
    const bool overlap = from < to + checked.output_bytes.value() &&
                         to < from + checked.input_bytes.value() && input > Elements{0} &&
                         output > Elements{0};
    if (overlap && from + shift(own.output) != to + shift(own.input))
      refuse(
          "input and output overlap: pass memory that is disjoint, or the same for an operation "
          "in place");
    return checked;
  }

  const Request& request_;
  const int rank_, ranks_;
};

}  // namespace

CheckedCall check(const Request& request, int rank, int ranks) {
  return Checker{request, rank, ranks}.check();
}

}  // namespace capstan
