// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "core/extras/backends/mock_world.hpp"
#include "core/extras/backends/polled_driver.hpp"

namespace capstan {

class MockWorld::Part : public NativeOperation {
 public:
  Part(std::shared_ptr<MockWorld> world, std::uint64_t number, int rank)
      : world_(std::move(world)), number_(number), rank_(rank) {}
  bool test() override;
  std::string missing() const override;

 private:
  std::shared_ptr<MockWorld> world_;
  std::uint64_t number_;
  int rank_;
};

class MockWorld::Mailed : public NativeOperation {
 public:
  Mailed(std::shared_ptr<MockWorld> world, int rank, const Message& message)
      : world_(std::move(world)), rank_(rank), message_(message) {}
  bool test() override;
  std::optional<MessageInfo> message() const override { return info_; }
  std::string missing() const override { return "no such message has been sent"; }

 private:
  std::shared_ptr<MockWorld> world_;
  int rank_;
  Message message_;
  MessageInfo info_{};
};

}  // namespace capstan
