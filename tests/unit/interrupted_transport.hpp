#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "transports/transport.hpp"

namespace capstan {

/// Passes everything on to another transport, reads memory of peers by read_remote() only, and lets
/// a test do something at the end of each such read, before its caller has it.
class InterruptedTransport final : public Transport {
 public:
  using Interruption = std::function<void(Rank peer)>;

  InterruptedTransport(std::unique_ptr<Transport> inner, const Interruption& interruption)
      : inner_(std::move(inner)), interruption_(interruption) {}

  std::string_view name() const override { return inner_->name(); }
  Address address() const override { return inner_->address(); }
  void connect(std::span<const Address> addresses, Deadline deadline) override {
    inner_->connect(addresses, deadline);
  }
  std::span<std::byte> segment() override { return inner_->segment(); }
  const Link& link(Rank peer) const override { return inner_->link(peer); }
  void push(Rank peer, Bytes offset, Bytes length) override { inner_->push(peer, offset, length); }
  void progress() override { inner_->progress(); }
  bool read_remote(Rank peer, std::uint64_t address, void* to, Bytes size) override {
    const bool read = inner_->read_remote(peer, address, to, size);
    if (interruption_) interruption_(peer);
    return read;
  }
  void prepare_to_sleep() override { inner_->prepare_to_sleep(); }
  void sleep(std::chrono::nanoseconds at_most) override { inner_->sleep(at_most); }
  void cancel_sleep() override { inner_->cancel_sleep(); }
  std::optional<std::string> departed(Rank peer) override { return inner_->departed(peer); }

 protected:
  void ring(const Link&) override {}

 private:
  const std::unique_ptr<Transport> inner_;
  const Interruption& interruption_;
};

}  // namespace capstan
