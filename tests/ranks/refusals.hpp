// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "capstan/communicator.hpp"
#include "tests/ranks/null_memory.hpp"

/// Calls that refuse their arguments.
namespace capstan::refusals {

inline constexpr std::size_t n = 6;

/// A call, and a part of what it has to say.
struct Refusal {
  std::string name, text;
  std::function<void(Communicator&)> call{};
};

inline void expect_refused(Communicator& world, const std::vector<Refusal>& refusals) {
  for (const auto& [name, text, call] : refusals)
    EXPECT_THAT(refusal_of([&] { call(world); }), ::testing::HasSubstr(text))
        << name << ", rank " << world.rank();
}

inline TensorView tensor_of(void* data, std::vector<std::int64_t> shape,
                            std::vector<std::int64_t> strides = {}) {
  return {data, DataType::f32, std::move(shape), std::move(strides)};
}

}  // namespace capstan::refusals
