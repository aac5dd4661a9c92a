// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capstan/communicator.hpp"
#include "capstan/error.hpp"

namespace capstan {

/// The text of the InvalidArgument, or what happened instead.
inline std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string{"another error: "} + error.what();
  }
  return "accepted";
}

/// Both buffers of every collective and message, in every form of call: null memory that is to hold
/// elements is refused before anything is sent. `world` has one rank; `memory` and `other`, which
/// are equally long, are the buffers that are not null.
inline void expect_null_refused(Communicator& world, std::span<float> memory,
                                std::span<float> other) {
  using ::testing::AllOf;
  using ::testing::HasSubstr;
  const std::size_t n = memory.size();
  const auto length = static_cast<std::int64_t>(n);
  const auto tensor = [&](void* data) { return TensorView{data, DataType::f32, {length}}; };
  for (const Collective collective : all_collectives()) {
    if (collective == Collective::barrier) continue;
    for (const int missing : {0, 1, 2}) {  // the input, the output, both
      float* const input = missing == 1 ? memory.data() : nullptr;
      float* const output = missing == 0 ? other.data() : nullptr;
      Request request = request::of(collective, std::span{input, n}, std::span{output, n});
      TensorRequest tensors{
          .collective = collective, .inputs = {tensor(input)}, .outputs = {tensor(output)}};
      if (has_counts(collective)) request.counts = {Elements{n}}, tensors.lengths = {length};
      if (collective == Collective::all_to_all_v)
        request.receive_counts = request.counts, tensors.receive_lengths = tensors.lengths;
      const std::string name = "rank 0: " + std::string{name_of(collective)};
      const auto expect = [&](const std::function<void()>& call) {
        EXPECT_THAT(refusal_of(call), AllOf(HasSubstr(name), HasSubstr("is null"))) << missing;
      };
      expect([&] { world.run(request); });
      expect([&] { (void)world.start(request); });
      expect([&] { world.run(tensors); });
      expect([&] { (void)world.start(tensors); });
    }
  }
  const std::span<float> null{static_cast<float*>(nullptr), n};
  const std::vector<std::span<float>> pieces{memory, null};
  const auto expect = [&](std::string name, const std::function<void()>& call) {
    EXPECT_THAT(refusal_of(call), AllOf(HasSubstr("rank 0: " + name), HasSubstr("is null")));
  };
  expect("send", [&] { world.send(null, 0); });
  expect("send", [&] { (void)world.start_send(tensor(nullptr), 0); });
  expect("receive", [&] { world.receive(null, 0); });
  expect("receive", [&] { (void)world.start_receive(tensor(nullptr), 0); });
  expect("receive",
         [&] { world.exchange({Message::to(0, memory), Message::from(0, tensor(nullptr))}); });
  expect("all_reduce", [&] { world.all_reduce(tensor(nullptr)); });
  expect("all_reduce", [&] { world.all_reduce_fused(std::span<const std::span<float>>{pieces}); });
  EXPECT_EQ(world.try_probe(), std::nullopt) << "nothing has been sent";
}

}  // namespace capstan
