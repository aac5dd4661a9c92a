// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "capstan/by_rank.hpp"
#include "core/engine/messages/messages.hpp"
#include "core/engine/run/agreement.hpp"

namespace capstan {

class Engine;

/// Agreements of some ranks of a communicator alone, by messages: the other ranks take no part. The
/// first member gathers the answers and tells the result to all. Rank i of an agreement is
/// `members[i]`.
///
/// These messages match no receive of the program. Exchanges of the same ranks that are under way
/// at the same time need different tags.
class MemberExchange final : public Exchange {
 public:
  /// `members` are ranks of the engine, this rank among them.
  MemberExchange(Engine& engine, const std::vector<Rank>& members, int tag);

  int ranks() const override { return static_cast<int>(members_.size()); }
  /// Throws PeerLost, TimedOut, which name the members that do not come.
  void run(const Agreement& agreement, const void* answer, void* result) override;

 private:
  using Buffer = std::vector<std::byte>;
  Messages::MessageTransfer message(bool sends, Rank peer, Buffer& data) const;
  void exchange(std::vector<Messages::MessageTransfer> transfers);
  void gather_and_tell(const Agreement& agreement, Buffer own, Buffer& result);

  Engine& engine_;
  const std::vector<Rank>& members_;
  const int tag_;
};

}  // namespace capstan
