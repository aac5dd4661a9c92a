// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <utility>

#include "transports/compose/forwarding_transport.hpp"

namespace capstan {

/// The state that network cards share in a test, and how they are to behave.
struct Cards {
  struct Range {
    std::uint64_t begin = 0, size = 0;
  };
  std::map<std::uint64_t, Range> exposed;             ///< by key
  std::uint64_t last_key = std::uint64_t{1} << 40;    ///< as wide as a card's may be
  bool expose = true, read = true;                    ///< off: they refuse
  bool expose_devices = false, read_devices = false;  ///< likewise
  Bytes step{1000};                                   ///< what one progress() reads
  int reads = 0, revoked = 0, ended = 0;
};

/// Passes everything on to another transport, and reads memory of peers as a network card does:
/// step by step, in progress().
class ReadingTransport final : public ForwardingTransport {
 public:
  ReadingTransport(std::unique_ptr<Transport> inner, Cards& cards)
      : ForwardingTransport(std::move(inner)), cards_(cards) {}

  void progress() override {
    ForwardingTransport::progress();
    std::erase_if(reads_, [&](UnderWay& one) { return !advance(one); });
  }

  std::unique_ptr<ExposedMemory> expose(Rank, const void* data, Bytes size,
                                        MemoryKind kind) override {
    if (!(kind == MemoryKind::device ? cards_.expose_devices : cards_.expose)) return nullptr;
    return std::make_unique<Exposed>(
        cards_, Cards::Range{reinterpret_cast<std::uintptr_t>(data), size.value()});
  }
  bool reaches_devices() override { return cards_.expose_devices || cards_.read_devices; }
  std::shared_ptr<RemoteRead> start_read(Rank peer, std::uint64_t address, std::uint64_t key,
                                         void* to, Bytes size, MemoryKind kind) override {
    if (!(kind == MemoryKind::device ? cards_.read_devices : cards_.read)) return nullptr;
    ++cards_.reads;
    auto read = std::make_shared<RemoteRead>(peer, size);
    reads_.push_back({read, address, key, static_cast<std::byte*>(to)});
    return read;
  }
  void end_reads(Rank peer) override {
    ++cards_.ended;
    for (UnderWay& one : reads_)
      while (one.read->peer == peer && advance(one)) {
      }
  }

 private:
  class Exposed final : public ExposedMemory {
   public:
    Exposed(Cards& cards, Cards::Range range)
        : cards_(cards), address_(range.begin), key_(++cards.last_key) {
      cards.exposed[key_] = range;
    }
    ~Exposed() override { cards_.exposed.erase(key_); }
    std::uint64_t address() const override { return address_; }
    std::uint64_t key() const override { return key_; }
    void revoke() override {
      cards_.exposed.erase(key_);
      ++cards_.revoked;
    }

   private:
    Cards& cards_;
    const std::uint64_t address_, key_;
  };
  struct UnderWay {
    std::shared_ptr<RemoteRead> read;
    std::uint64_t address, key;
    std::byte* to;
  };

  /// False when it has ended.
  bool advance(UnderWay& one) {
    if (!one.read->under_way()) return false;
    const std::uint64_t step = std::min<std::uint64_t>(cards_.step.value(), one.read->left);
    const auto found = cards_.exposed.find(one.key);
    if (found == cards_.exposed.end() || one.address < found->second.begin ||
        one.address + step > found->second.begin + found->second.size) {
      one.read->failed = true;
      return false;
    }
    std::memcpy(one.to, reinterpret_cast<const void*>(one.address), step);
    one.to += step;
    one.address += step;
    one.read->left -= step;
    return one.read->under_way();
  }

  Cards& cards_;
  std::list<UnderWay> reads_;
};

}  // namespace capstan
