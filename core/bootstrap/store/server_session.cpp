// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/store/server_session.hpp"

#include <fmt/format.h>

#include <limits>

namespace capstan {
namespace {

using Reaction = ServerSession::Reaction;

Reaction reply(wire::StoreMessage message) {
  return {.reply = std::move(message)};
}

/// No warning for a client that is merely early: it tries again soon.
Reaction refuse(wire::Refusal refusal) {
  auto warning = refusal.reason == wire::FailureReason::scope_closed ? std::string{} : refusal.text;
  return {.reply = std::move(refusal), .warning = std::move(warning)};
}

Reaction out_of_turn() {
  return refuse({wire::FailureReason::malformed, "a message that has no place at this point"});
}

Deadline deadline_of(const wire::Get& get) {
  const bool for_ever = get.milliseconds == std::numeric_limits<std::uint32_t>::max();
  return for_ever ? Deadline::never() : Deadline::in(std::chrono::milliseconds{get.milliseconds});
}

}  // namespace

ServerSession::~ServerSession() {
  if (scope_) scopes_.leave(*scope_, rank_);
}

Reaction ServerSession::on(const wire::StoreMessage& message) {
  if (const auto* hello = std::get_if<wire::Hello>(&message); hello && !proofs_.challenged()) {
    return reply(proofs_.challenge(*hello));
  }
  if (const auto* join = std::get_if<wire::Join>(&message);
      join && proofs_.challenged() && !scope_) {
    return on_join(*join);
  }
  if (!scope_ || waiting()) return out_of_turn();
  if (const auto* put = std::get_if<wire::Put>(&message)) return on_put(*put);
  if (const auto* get = std::get_if<wire::Get>(&message)) return on_get(*get);
  if (const auto* get = std::get_if<wire::TryGet>(&message)) return on_try_get(*get);
  return out_of_turn();
}

Reaction ServerSession::on_join(const wire::Join& join) {
  // The proof first: a client without the secret learns nothing about scopes and ranks.
  if (!proofs_.trusts(join, secret_)) {
    return refuse({wire::FailureReason::wrong_secret, "it does not know the job's secret"});
  }
  const wire::Membership& member = join.claims;
  Scope* const scope = scopes_.admit(member.scope);
  if (auto refusal = objection(member, scope)) return refuse(std::move(*refusal));
  scope_ = scope;
  rank_ = member.rank;
  scope->enter(member.rank, member.size);
  return {.reply = proofs_.welcome(join, secret_), .keys = proofs_.keys(join, secret_)};
}

std::optional<wire::Refusal> ServerSession::objection(const wire::Membership& member,
                                                      Scope* scope) const {
  using enum wire::FailureReason;
  if (!scope) return wire::Refusal{scope_closed, "its communicator is not open here"};
  if (member.rank == -1) return std::nullopt;
  if (member.rank < -1 || member.rank >= member.size) {
    return wire::Refusal{malformed, fmt::format("rank {} of {}", member.rank, member.size)};
  }
  if (member.size > wire::max_ranks) {
    return wire::Refusal{malformed, fmt::format("rank {} says that the communicator has {} ranks; "
                                                "{} are the most",
                                                member.rank, member.size, wire::max_ranks)};
  }
  if (scope->size() != 0 && scope->size() != member.size) {
    return wire::Refusal{wrong_size, fmt::format("rank {} says that the communicator has {} ranks, "
                                                 "others said {}",
                                                 member.rank, member.size, scope->size())};
  }
  if (scope->is_present(member.rank)) {
    return wire::Refusal{rank_taken, fmt::format("rank {} is connected already", member.rank)};
  }
  return std::nullopt;
}

Reaction ServerSession::on_put(const wire::Put& put) {
  if (!scopes_.put(*scope_, put.key, put.value)) {
    return reply(wire::Failure{wire::FailureReason::full, "the store's memory is used up"});
  }
  return {.reply = wire::Done{}, .stored = true};
}

Reaction ServerSession::on_get(const wire::Get& get) {
  waiting_for_ = get.key;
  wait_deadline_ = deadline_of(get);
  return {.reply = answer()};
}

Reaction ServerSession::on_try_get(const wire::TryGet& get) const {
  if (const auto* value = scope_->find(get.key)) return reply(wire::Value{*value});
  return reply(wire::Absent{});
}

std::optional<wire::StoreMessage> ServerSession::answer() {
  if (!waiting()) return std::nullopt;
  const auto* value = scope_->find(*waiting_for_);
  if (!value) return std::nullopt;
  waiting_for_.reset();
  return wire::Value{*value};
}

wire::StoreMessage ServerSession::give_up(wire::FailureReason reason) {
  waiting_for_.reset();
  return wire::Failure{reason, scope_->absentees()};
}

}  // namespace capstan
