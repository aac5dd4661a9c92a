// SPDX-License-Identifier: Apache-2.0
#include "core/communicator/checked_call.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "capstan/error.hpp"
#include "capstan/request.hpp"

namespace capstan {
namespace {

using testing::HasSubstr;

constexpr int rank = 1, ranks = 4;

struct Buffers {
  std::array<float, 8> input{}, output{};

  Request all_reduce() { return request::of(Collective::all_reduce, input, output); }
};

std::string refusal_of(const Request& request) {
  try {
    check(request, rank, ranks);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(CheckedCall, HoldsBuffersAndTheirLengths) {
  Buffers buffers;
  const CheckedCall checked = check(buffers.all_reduce(), rank, ranks);
  EXPECT_EQ(checked.call.collective, Collective::all_reduce);
  EXPECT_EQ(checked.input, buffers.input.data());
  EXPECT_EQ(checked.output, buffers.output.data());
  EXPECT_EQ(checked.input_bytes, Bytes{sizeof buffers.input});
  EXPECT_EQ(checked.output_bytes, Bytes{sizeof buffers.output});
}

TEST(CheckedCall, AStreamIsRefusedWithTheCallAndTheRemedy) {
  Buffers buffers;
  Request request = buffers.all_reduce();
  int stream = 0;
  request.stream = &stream;
  const std::string refusal = refusal_of(request);
  EXPECT_THAT(refusal, HasSubstr("rank 1: all_reduce: "));
  EXPECT_THAT(refusal, HasSubstr("pass no stream"));
}

TEST(CheckedCall, RequestsWithDifferentStreamsDiffer) {
  Buffers buffers;
  const Request plain = buffers.all_reduce();
  Request streamed = plain;
  EXPECT_EQ(plain, streamed);
  int stream = 0;
  streamed.stream = &stream;
  EXPECT_NE(plain, streamed);
}

TEST(CheckedCall, OverlappingBuffersAreRefused) {
  std::array<float, 12> memory{};
  Request request;
  request.collective = Collective::all_reduce;
  request.type = DataType::f32;
  request.input = memory.data();
  request.input_count = Elements{8};
  request.output = memory.data() + 4;
  request.output_count = Elements{8};
  EXPECT_THAT(refusal_of(request), HasSubstr("overlap"));
}

/// Buffers that only the root has: those of others are not looked at, even where they make no
/// sense.
TEST(CheckedCall, ABufferThatTheRankDoesNotUseIsNotLookedAt) {
  struct Rooted {
    Collective collective;
    bool input;  ///< it is the input that only the root has
  };
  std::array<float, 8> memory{};
  for (const auto& [collective, input] :
       {Rooted{Collective::broadcast, true}, Rooted{Collective::scatter, true},
        Rooted{Collective::scatter_v, true}, Rooted{Collective::reduce, false},
        Rooted{Collective::gather, false}, Rooted{Collective::gather_v, false}}) {
    Request request;
    request.collective = collective;
    request.type = DataType::f32;
    request.input = request.output = memory.data();
    request.input_count = request.output_count = Elements{2};
    if (has_counts(collective)) request.counts.assign(ranks, Elements{2});
    (input ? request.input_count : request.output_count) = Elements{99};
    if (input) request.input = nullptr;
    if (!input) request.output = nullptr;
    EXPECT_EQ(refusal_of(request), "accepted") << name_of(collective);
    request.root = rank;
    EXPECT_THAT(refusal_of(request),
                HasSubstr(input ? "the input holds 99" : "the output holds 99"))
        << name_of(collective);
  }
}

}  // namespace
}  // namespace capstan
