// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "transports/transport.hpp"

namespace capstan {

/// Passes every call on to the transport that it owns. A wrapper derives from it and overrides what
/// it changes. A wrapper that derives from Transport itself compiles without the functions that
/// have a default, which then do nothing. forwarding_transport_test finds functions that are
/// missing here.
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
  void announce_sources(std::span<const std::byte> input,
                        std::span<const std::byte> output) override {
    inner_->announce_sources(input, output);
  }
  bool pushed(Rank peer) const override { return inner_->pushed(peer); }
  void detach_sources(Rank peer) override { inner_->detach_sources(peer); }
  void progress() override { inner_->progress(); }

  bool read_remote(Rank peer, std::uint64_t address, void* to, Bytes size) override {
    return inner_->read_remote(peer, address, to, size);
  }
  bool write_remote(Rank peer, std::uint64_t address, const void* from, Bytes size) override {
    return inner_->write_remote(peer, address, from, size);
  }
  std::unique_ptr<ExposedMemory> expose(Rank peer, const void* data, Bytes size,
                                        MemoryKind kind) override {
    return inner_->expose(peer, data, size, kind);
  }
  bool reaches_devices() override { return inner_->reaches_devices(); }
  std::shared_ptr<RemoteRead> start_read(Rank peer, std::uint64_t address, std::uint64_t key,
                                         void* to, Bytes size, MemoryKind kind) override {
    return inner_->start_read(peer, address, key, to, size, kind);
  }
  void end_reads(Rank peer) override { inner_->end_reads(peer); }
  bool shares_addresses() const override { return inner_->shares_addresses(); }

  int descriptor() const override { return inner_->descriptor(); }
  void prepare_to_sleep() override { inner_->prepare_to_sleep(); }
  void sleep(std::chrono::nanoseconds at_most) override { inner_->sleep(at_most); }
  void cancel_sleep() override { inner_->cancel_sleep(); }

  bool watch(Rank peer) override { return inner_->watch(peer); }
  std::optional<std::string> departed(Rank peer) override { return inner_->departed(peer); }
  void end_soon() override { inner_->end_soon(); }

 protected:
  /// Destroyed after all members of the wrapper.
  Transport& inner() { return *inner_; }
  const Transport& inner() const { return *inner_; }

  /// The links are those of the inner transport, whose own ring() only wake() may call.
  void ring(const Link& link) override { inner_->wake(link); }

 private:
  const std::unique_ptr<Transport> inner_;
};

}  // namespace capstan
