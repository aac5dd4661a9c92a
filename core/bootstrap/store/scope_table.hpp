// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace capstan {

/// The state of one communicator on a server: its values, and which ranks have joined and left.
class Scope {
 public:
  /// Where a scope that its host has opened holds the ranks that have joined and left, as int32.
  static constexpr std::string_view departures_key = "departures";

  explicit Scope(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  /// Every rank has joined at some time.
  bool complete() const { return size_ > 0 && joined_.size() == static_cast<std::size_t>(size_); }
  /// Every rank has joined, and nobody is connected any more.
  bool finished() const { return complete() && connections_ == 0; }
  int size() const { return size_; }
  bool is_present(int rank) const { return present_.contains(rank); }

  /// Rank -1 is no rank. Otherwise 0 <= rank < size, and all give the same size.
  void enter(int rank, int size);
  void leave(int rank);

  const std::vector<std::byte>* find(std::string_view key) const;
  /// Says in words which ranks are not here: "rank 3 never joined; rank 1 has left".
  std::string absentees() const;

 private:
  friend class ScopeTable;
  std::vector<int> left_early() const;

  std::string name_;
  int size_ = 0;  // 0 until the first rank says it
  int connections_ = 0;
  std::set<int> joined_;
  std::set<int> present_;
  std::map<std::string, std::vector<std::byte>, std::less<>> values_;
};

/// All scopes of a server. Either any name opens a scope, for a launcher that serves whatever its
/// job's ranks create, or only those that the host has opened.
class ScopeTable {
 public:
  explicit ScopeTable(bool any_scope) : any_scope_(any_scope) {}

  void open(const std::string& name);
  void close(const std::string& name);
  /// The scope that a newcomer asks for; null if it is not open or has all its ranks.
  Scope* admit(const std::string& name);
  void leave(Scope& scope, int rank);

  /// False if the server's memory would be exceeded.
  bool put(Scope& scope, const std::string& key, std::vector<std::byte> value);

  /// No newcomer can be admitted any more.
  bool all_complete() const;
  /// All scopes are finished, and there was one.
  bool all_finished() const;

 private:
  void forget(const std::string& name);

  static constexpr std::size_t max_bytes = std::size_t{256} << 20;
  static constexpr std::size_t max_scopes = std::size_t{1} << 16;
  bool any_scope_;
  std::size_t bytes_ = 0;
  std::map<std::string, std::unique_ptr<Scope>> scopes_;
};

}  // namespace capstan
