#pragma once

#include <memory>
#include <utility>

#include "transports/transport.hpp"

namespace capstan {

/// Passes everything on to another transport but reads of remote memory and wakes, which a test
/// defines.
class ForwardingTransport : public Transport {
 public:
  explicit ForwardingTransport(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}

  std::string_view name() const override { return inner_->name(); }
  Address address() const override { return inner_->address(); }
  void connect(std::span<const Address> addresses, Deadline deadline) override {
    inner_->connect(addresses, deadline);
  }
  std::span<std::byte> segment() override { return inner_->segment(); }
  const Link& link(Rank peer) const override { return inner_->link(peer); }
  void push(Rank peer, Bytes offset, Bytes length) override { inner_->push(peer, offset, length); }
  void push_from(Rank peer, Bytes offset, const void* from, Bytes length) override {
    inner_->push_from(peer, offset, from, length);
  }
  bool pushed(Rank peer) const override { return inner_->pushed(peer); }
  void detach_sources(Rank peer) override { inner_->detach_sources(peer); }
  void progress() override { inner_->progress(); }
  void prepare_to_sleep() override { inner_->prepare_to_sleep(); }
  void sleep(std::chrono::nanoseconds at_most) override { inner_->sleep(at_most); }
  void cancel_sleep() override { inner_->cancel_sleep(); }
  std::optional<std::string> departed(Rank peer) override { return inner_->departed(peer); }

 protected:
  Transport& inner() { return *inner_; }

 private:
  const std::unique_ptr<Transport> inner_;
};

}  // namespace capstan
