// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/store/scope_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/bootstrap/store/store.hpp"

namespace capstan {
namespace {

/// The memory that containers need beside a key and its value, roughly, in bytes.
constexpr std::size_t overhead = 128;

std::size_t cost_of(std::string_view key, std::size_t value) {
  return key.size() + value + overhead;
}

}  // namespace

void Scope::enter(int rank, int size) {
  ++connections_;
  if (rank < 0) return;
  size_ = size;
  joined_.insert(rank);
  present_.insert(rank);
}

void Scope::leave(int rank) {
  --connections_;
  present_.erase(rank);
}

const std::vector<std::byte>* Scope::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::string Scope::absentees() const {
  if (const auto* verdict = find(verdict_key))  // of rank 0, which knows more
    return {reinterpret_cast<const char*>(verdict->data()), verdict->size()};
  const std::size_t missing = static_cast<std::size_t>(size_) - joined_.size();
  std::vector<int> never;  // only those that the text can name
  for (int r = 0; never.size() < std::min(missing, most_listed_ranks); ++r) {
    if (!joined_.contains(r)) never.push_back(r);
  }
  const std::vector<int> left = left_early();
  std::string text =
      missing == 0 ? "every rank has joined" : list_ranks(never, missing) + " never joined";
  if (!left.empty()) text += fmt::format("; {} left early", list_ranks(left));
  return text;
}

std::vector<int> Scope::left_early() const {
  std::vector<int> left;
  std::ranges::set_difference(joined_, present_, std::back_inserter(left));
  return left;
}

void ScopeTable::open(const std::string& name) {
  scopes_.try_emplace(name, std::make_unique<Scope>(name));
}

void ScopeTable::close(const std::string& name) {
  forget(name);
}

Scope* ScopeTable::admit(const std::string& name) {
  if (any_scope_ && scopes_.size() < max_scopes) open(name);
  const auto found = scopes_.find(name);
  if (found == scopes_.end()) return nullptr;
  // A launcher's scope admits tools at any time. A scope that its host opened closes once complete.
  return found->second->complete() && !any_scope_ ? nullptr : found->second.get();
}

void ScopeTable::leave(Scope& scope, int rank) {
  scope.leave(rank);
  if (any_scope_) {
    if (scope.finished()) forget(std::string{scope.name()});
  } else if (rank >= 0) {
    const std::vector<int> left = scope.left_early();
    const auto bytes = std::as_bytes(std::span{left});
    put(scope, std::string{Scope::departures_key}, {bytes.begin(), bytes.end()});
  }
}

bool ScopeTable::put(Scope& scope, const std::string& key, std::vector<std::byte> value) {
  const auto old = scope.values_.find(key);
  const std::size_t freed = old == scope.values_.end() ? 0 : cost_of(key, old->second.size());
  const std::size_t after = bytes_ - freed + cost_of(key, value.size());
  if (after > max_bytes) return false;
  bytes_ = after;
  scope.values_.insert_or_assign(key, std::move(value));
  return true;
}

bool ScopeTable::all_complete() const {
  return !any_scope_ && !scopes_.empty() &&
         std::ranges::all_of(scopes_, [](const auto& s) { return s.second->complete(); });
}

bool ScopeTable::all_finished() const {
  return !scopes_.empty() &&
         std::ranges::all_of(scopes_, [](const auto& s) { return s.second->finished(); });
}

void ScopeTable::forget(const std::string& name) {
  const auto found = scopes_.find(name);
  if (found == scopes_.end()) return;
  for (const auto& [key, value] : found->second->values_) bytes_ -= cost_of(key, value.size());
  scopes_.erase(found);
}

}  // namespace capstan
