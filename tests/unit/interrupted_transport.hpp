// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "transports/compose/forwarding_transport.hpp"

namespace capstan {

/// Passes everything on to another transport, reads memory of peers by read_remote() only, and lets
/// a test do something at the end of each such read, before its caller has it.
class InterruptedTransport final : public ForwardingTransport {
 public:
  using Interruption = std::function<void(Rank peer)>;

  InterruptedTransport(std::unique_ptr<Transport> inner, const Interruption& interruption)
      : ForwardingTransport(std::move(inner)), interruption_(interruption) {}

  bool read_remote(Rank peer, std::uint64_t address, void* to, Bytes size) override {
    const bool read = inner().read_remote(peer, address, to, size);
    if (interruption_) interruption_(peer);
    return read;
  }
  bool write_remote(Rank, std::uint64_t, const void*, Bytes) override { return false; }
  bool shares_addresses() const override { return false; }  // else nobody asks for reads

 protected:
  void ring(const Link&) override {}

 private:
  const Interruption& interruption_;
};

}  // namespace capstan
