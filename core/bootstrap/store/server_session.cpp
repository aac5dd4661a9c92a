#include "core/bootstrap/store/server_session.hpp"

#include <fmt/format.h>

#include <limits>

#include "core/net/random.hpp"

namespace capstan {
namespace {

using Reaction = ServerSession::Reaction;

Reaction reply(wire::Message message) {
  return {.reply = std::move(message)};
}

/// A client that is merely early tries again soon, which is nothing to warn of.
Reaction refuse(wire::Refusal refusal) {
  auto complaint = refusal.reason == wire::Reason::scope_closed ? std::string{} : refusal.text;
  return {.reply = std::move(refusal), .complaint = std::move(complaint)};
}

Reaction out_of_turn() {
  return refuse({wire::Reason::malformed, "a message that has no place at this point"});
}

Deadline deadline_of(const wire::Get& get) {
  const bool for_ever = get.milliseconds == std::numeric_limits<std::uint32_t>::max();
  return for_ever ? Deadline::never() : Deadline::in(std::chrono::milliseconds{get.milliseconds});
}

}  // namespace

ServerSession::~ServerSession() {
  if (scope_) scopes_.leave(*scope_, rank_);
}

Reaction ServerSession::on(const wire::Message& message) {
  if (const auto* hello = std::get_if<wire::Hello>(&message); hello && !greeted_) {
    return on_hello(*hello);
  }
  if (const auto* join = std::get_if<wire::Join>(&message); join && greeted_ && !scope_) {
    return on_join(*join);
  }
  if (!scope_ || waiting()) return out_of_turn();
  if (const auto* put = std::get_if<wire::Put>(&message)) return on_put(*put);
  if (const auto* get = std::get_if<wire::Get>(&message)) return on_get(*get);
  if (const auto* get = std::get_if<wire::TryGet>(&message)) return on_try_get(*get);
  return out_of_turn();
}

Reaction ServerSession::on_hello(const wire::Hello& hello) {
  greeted_ = true;
  client_nonce_ = hello.nonce;
  server_nonce_ = random_value<wire::Nonce>();
  return reply(wire::Challenge{server_nonce_});
}

Reaction ServerSession::on_join(const wire::Join& join) {
  // The proof first: who lacks the secret learns nothing about scopes and ranks.
  const auto expected =
      secret_.proof(wire::transcript("client", client_nonce_, server_nonce_, join));
  if (!same_proof(expected, join.proof)) {
    return refuse({wire::Reason::wrong_secret, "it does not know the job's secret"});
  }
  Scope* const scope = scopes_.admit(join.scope);
  if (auto refusal = objection(join, scope)) return refuse(std::move(*refusal));
  scope_ = scope;
  rank_ = join.rank;
  scope->enter(join.rank, join.size);
  return reply(
      wire::Welcome{secret_.proof(wire::transcript("server", client_nonce_, server_nonce_, join))});
}

std::optional<wire::Refusal> ServerSession::objection(const wire::Join& join, Scope* scope) const {
  using enum wire::Reason;
  if (!scope) return wire::Refusal{scope_closed, "its communicator is not open here"};
  if (join.rank == -1) return std::nullopt;
  if (join.rank < -1 || join.rank >= join.size) {
    return wire::Refusal{malformed, fmt::format("rank {} of {}", join.rank, join.size)};
  }
  if (scope->size() != 0 && scope->size() != join.size) {
    return wire::Refusal{wrong_size, fmt::format("rank {} says that the communicator has {} ranks, "
                                                 "others said {}",
                                                 join.rank, join.size, scope->size())};
  }
  if (scope->is_present(join.rank)) {
    return wire::Refusal{rank_taken, fmt::format("rank {} is connected already", join.rank)};
  }
  return std::nullopt;
}

Reaction ServerSession::on_put(const wire::Put& put) {
  if (!scopes_.put(*scope_, put.key, put.value)) {
    return reply(wire::Failure{wire::Reason::full, "the store's memory is used up"});
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

std::optional<wire::Message> ServerSession::answer() {
  if (!waiting()) return std::nullopt;
  const auto* value = scope_->find(*waiting_for_);
  if (!value) return std::nullopt;
  waiting_for_.reset();
  return wire::Value{*value};
}

wire::Message ServerSession::give_up(wire::Reason reason) {
  waiting_for_.reset();
  return wire::Failure{reason, scope_->absentees()};
}

}  // namespace capstan
