// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capstan/by_rank.hpp"
#include "capstan/deadline.hpp"
#include "core/bootstrap/store/store.hpp"
#include "core/engine/run/agreement.hpp"

namespace capstan {

/// Exchanges among the ranks of a world that is being made, through its store. A subject serves
/// once. All functions throw what the store throws.
class StoreExchange final : public Exchange {
 public:
  StoreExchange(JobStore& store, Rank self, int ranks, Deadline deadline)
      : store_(store), self_(self), ranks_(ranks), deadline_(deadline) {}

  Rank self() const { return self_; }
  int ranks() const override { return ranks_; }
  const Secret& secret() const { return store_.secret(); }
  Deadline deadline() const { return deadline_; }

  /// Tells the other ranks, for their errors, which process this rank is.
  void introduce(const std::string& process) { capstan::introduce(store_, self_.value(), process); }

  /// The answers of all ranks, whose lengths may differ.
  ByRank<std::vector<std::byte>> gather(std::string_view subject, std::span<const std::byte> own);
  ByRank<std::string> gather_text(std::string_view subject, const std::string& own);

  /// Agreements on bytes: the least, or all. Throws BootstrapError when answers of other ranks have
  /// another length, as those of other versions may.
  void run(const Agreement& agreement, const void* answer, void* result) override;

  /// The value of rank 0; `own` of other ranks does not count.
  template <class T>
  T from_first(std::string_view subject, T own) {
    if (self_ == Rank{0})
      store_.put(key(subject, 0), std::as_bytes(std::span{&own, 1}));
    else
      copy_answer(await(subject, 0, 1), std::as_writable_bytes(std::span{&own, 1}));
    return own;
  }

  /// The text of rank 0, which may be longer than a value of the store.
  std::string text_from_first(std::string_view subject, const std::string& own);

  /// Returns when all ranks have called it.
  void barrier(std::string_view name) {
    capstan::barrier(store_, name, self_.value(), ranks_, deadline_);
  }

 private:
  std::vector<std::byte> await(std::string_view subject, int peer, int answering);
  static std::string key(std::string_view subject, int rank);
  static void require_length(const std::vector<std::byte>& answer, std::size_t length);
  static void copy_answer(const std::vector<std::byte>& answer, std::span<std::byte> to);

  JobStore& store_;
  const Rank self_;
  const int ranks_;
  const Deadline deadline_;
};

}  // namespace capstan
