// SPDX-License-Identifier: Apache-2.0
#include "core/engine/world/store_exchange.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "capstan/error.hpp"

namespace capstan {

std::string StoreExchange::key(std::string_view subject, int rank) {
  return fmt::format("{}/{}", subject, rank);
}

void StoreExchange::require_length(const std::vector<std::byte>& answer, std::size_t length) {
  if (answer.size() != length)
    throw BootstrapError("ranks run different versions of Capstan: use one for all");
}

void StoreExchange::copy_answer(const std::vector<std::byte>& answer, std::span<std::byte> to) {
  require_length(answer, to.size());
  std::ranges::copy(answer, to.begin());
}

ByRank<std::vector<std::byte>> StoreExchange::gather(std::string_view subject,
                                                     std::span<const std::byte> own) {
  store_.put(key(subject, self_.value()), own);
  ByRank<std::vector<std::byte>> all;
  for (int peer = 0; peer < ranks_; ++peer) all.push_back(await(subject, peer, ranks_));
  return all;
}

/// The answer of one rank. Throws TimedOut that names all of the first `answering` ranks whose
/// answers are missing.
std::vector<std::byte> StoreExchange::await(std::string_view subject, int peer, int answering) {
  try {
    return store_.get(key(subject, peer), deadline_);
  } catch (const TimedOut&) {
    blame_missing(
        store_, fmt::format("exchange of \"{}\"", subject), self_.value(), ranks_, deadline_,
        [&](int rank) { return rank < answering && !store_.try_get(key(subject, rank)); });
  }
  return store_.get(key(subject, peer), deadline_);
}

ByRank<std::string> StoreExchange::gather_text(std::string_view subject, const std::string& own) {
  ByRank<std::string> all;
  for (const auto& bytes : gather(subject, std::as_bytes(std::span{own})))
    all.push_back({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return all;
}

std::string StoreExchange::text_from_first(std::string_view subject, const std::string& own) {
  constexpr std::size_t piece = 32 << 10;
  std::string text;
  for (std::size_t i = 0;; ++i) {  // the last piece is shorter than the others, maybe empty
    const std::string name = fmt::format("{}/{}", subject, i);
    if (self_ == Rank{0}) {
      const std::string next = own.substr(std::min(own.size(), i * piece), piece);
      store_.put(name, std::as_bytes(std::span{next}));
      if (next.size() < piece) return own;
      continue;
    }
    const auto next = store_.get(name, deadline_);
    text.append(reinterpret_cast<const char*>(next.data()), next.size());
    if (next.size() < piece) return text;
  }
}

void StoreExchange::run(const Agreement& agreement, const void* answer, void* result) {
  const std::size_t size = agreement.answer_bytes().value();
  const auto all = gather(agreement.subject, {static_cast<const std::byte*>(answer), size});
  for (const auto& theirs : all) require_length(theirs, size);
  combine(agreement, all, result);
}

}  // namespace capstan
