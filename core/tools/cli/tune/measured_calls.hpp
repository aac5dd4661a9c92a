// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capstan/communicator.hpp"
#include "core/communicator/checked_call.hpp"
#include "core/communicator/stream_tuning.hpp"
#include "core/engine/run/engine.hpp"
#include "perf/measure/device_calls.hpp"

namespace capstan::cli {

/// A call that is measured, in both forms in which calls are made.
struct MeasuredCall {
  Request request;
  CheckedCall checked;
};

/// Makes calls that are measured, in one kind of memory. All ranks use theirs together.
class MeasuredCalls {
 public:
  virtual ~MeasuredCalls() = default;

  virtual Engine& engine() = 0;
  /// The farthest link between the devices; none: in memory of the host.
  virtual std::optional<DeviceLink> devices() const = 0;
  /// Buffers for any call of the sweep.
  virtual std::byte* input() = 0;
  virtual std::byte* output() = 0;
  /// Decides by other rules from the next call on.
  virtual void use_rules(AlgorithmRules rules) = 0;
  /// Makes a call again and again. Returns when all have ended.
  virtual void run(const MeasuredCall& call, int times) = 0;
};

class CallsOnHost : public MeasuredCalls {
 public:
  /// All of them outlive this.
  CallsOnHost(Engine& engine, std::byte* input, std::byte* output)
      : engine_(engine), input_(input), output_(output) {}

  Engine& engine() override { return engine_; }
  std::optional<DeviceLink> devices() const override { return std::nullopt; }
  std::byte* input() override { return input_; }
  std::byte* output() override { return output_; }
  void use_rules(AlgorithmRules rules) override { engine_.use_rules(std::move(rules)); }
  void run(const MeasuredCall& call, int times) override;

 private:
  Engine& engine_;
  std::byte* const input_;
  std::byte* const output_;
};

/// Calls by kernels in a stream of a device.
class CallsOnDevices : public MeasuredCalls {
 public:
  /// Joins the world that a launcher has started. Each rank takes the next device of the vendor,
  /// "cuda" or "hip". Throws SystemError where calls do not run by kernels, and what
  /// Communicator::from_environment() throws.
  CallsOnDevices(const std::string& vendor, std::size_t bytes);

  Engine& engine() override { return tuning_.engine(); }
  std::optional<DeviceLink> devices() const override { return link_; }
  std::byte* input() override { return input_.get(); }
  std::byte* output() override { return output_.get(); }
  void use_rules(AlgorithmRules rules) override { tuning_.use_rules(std::move(rules)); }
  void run(const MeasuredCall& call, int times) override;

 private:
  Communicator world_;
  perf::DeviceCalls calls_;
  StreamTuning tuning_;
  std::shared_ptr<std::byte> input_, output_;
  DeviceLink link_{};
};

}  // namespace capstan::cli
