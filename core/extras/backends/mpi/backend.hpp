// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/extras/backends/backend_call.hpp"
#include "core/extras/backends/mpi/operation.hpp"

namespace capstan {

/// A backend over MPI: see capstan/backends/mpi.hpp. messages.cpp has its messages.
class MpiBackend : public Backend, public AsynchronousPart, public PointToPointPart {
 public:
  /// Takes the communicator over.
  MpiBackend(LoadedMpi& mpi, MpiHandle communicator, const BackendConfig& config)
      : mpi_(mpi),
        communicator_(communicator),
        config_(config),
        options_(MpiConfig::from_options(config.options)),
        rank_(mpi.adapter().rank(communicator)),
        size_(mpi.adapter().size(communicator)),
        driver_(std::make_shared<PolledDriver>(PolledDriver::Options{
            fmt::format("rank {}: mpi", rank_), config.timeout, reason_for_no_thread()})) {}
  ~MpiBackend() override { MpiBackend::close(); }

  std::string_view name() const override { return "mpi"; }
  int rank() const override { return rank_; }
  int world_size() const override { return size_; }
  Device device() const override { return config_.device; }
  bool is_initialized() const override { return open_; }
  Capabilities capabilities() const override {
    return {.asynchronous = true,
            .point_to_point = true,
            .probe = true,
            .any_source = true,
            .tags = true,
            .deadline = true,
            .device_memory = true,
            .subgroups = true};
  }
  void close() override {
    if (!open_) return;
    open_ = false;
    const bool idle = driver_->is_idle();
    driver_->close("the backend was closed");
    if (idle && !mpi_.adapter().finalized())
      mpi_.locked([&] { return mpi_.adapter().free_communicator(communicator_); });
  }
  AsynchronousPart* asynchronous() override { return this; }
  PointToPointPart* point_to_point() override { return this; }

  using Backend::probe;
  using Backend::receive;
  using Backend::run;
  using Backend::start;
  Work start(const Request& request, Finish finish) override;
  Work start(const Message& message, Finish finish) override;
  MessageInfo run(const Message& message) override;
  std::optional<MessageInfo> probe(int source, int tag) override;
  Tensor receive(DataType type, int source, int tag) override;

 protected:
  std::unique_ptr<Backend> make_subgroup(std::span<const int> ranks) override;
  std::shared_ptr<DeviceRuntime> staging_for(const Device& device) const override;

 private:
  std::string reason_for_no_thread() const;
  std::string call_text(const std::string& what) const {
    return fmt::format("rank {}: mpi: {}", rank_, what);
  }
  std::unique_ptr<MpiOperation> operation(const std::string& what) {
    return std::make_unique<MpiOperation>(mpi_, call_text(what), options_.longest_count);
  }
  void require_tag(int tag) const {
    const int highest = mpi_.adapter().highest_tag(communicator_);
    if (tag > highest)
      refuse(fmt::format("tag {}", tag), fmt::format("this MPI has tags 0 to {}", highest));
  }

  void start(MpiOperation& operation, const Request& request, Finish& finish);
  void start_reduction(MpiOperation& operation, const Request& request, Finish& finish);
  void all_reduce(MpiOperation& operation, const Request& request, MpiHandle type, MpiHandle op);
  void reduce(MpiOperation& operation, const Request& request, MpiHandle type, MpiHandle op,
              const void* input, void* output, Elements count, int root);
  void reduce_scatter(MpiOperation& operation, const Request& request, MpiHandle type, MpiHandle op,
                      Finish& finish);
  MpiHandle type_for(const Request& request) const;
  MpiHandle operation_for(const Request& request) const;

  LoadedMpi& mpi_;
  const MpiHandle communicator_;
  const BackendConfig config_;
  const MpiConfig options_;
  const int rank_, size_;
  std::shared_ptr<PolledDriver> driver_;
  bool open_ = true;
};

}  // namespace capstan
