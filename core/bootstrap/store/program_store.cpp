// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/store/program_store.hpp"

#include <fmt/format.h>

#include "capstan/error.hpp"
#include "core/bootstrap/store/wire.hpp"
#include "core/platform/net/cipher.hpp"

namespace capstan {
namespace {

// The first byte of a value says whether the rest is encrypted, so that a rank with a secret and a
// rank without one notice each other.
constexpr std::byte plain{'p'}, encrypted{'e'};

constexpr std::size_t shortest_of_program = 16, longest_prefix = 128;

std::optional<Secret> secret_of(const ProgramStore::Options& options) {
  if (options.secret.empty()) return std::nullopt;
  if (options.secret.size() < shortest_of_program)
    throw InvalidArgument(
        fmt::format("rank {}: join: the secret has {} characters: give all ranks the same one of "
                    "{} or more (Settings::secret, CAPSTAN_SECRET)",
                    options.rank, options.secret.size(), shortest_of_program));
  return Secret::from_text(options.secret);
}

}  // namespace

/// Runs a call of the program's store. What it throws is not known here, but its text is.
template <class Call>
auto ProgramStore::call(std::string_view function, std::string_view key, Deadline deadline,
                        Call call) const {
  const auto text = [&](const char* what) {
    return fmt::format("rank {}: {}(\"{}\") of the program's store: {}", rank_, function, full(key),
                       what);
  };
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (deadline.expired()) throw TimedOut(text(error.what()));
    throw BootstrapError(text(error.what()));
  } catch (...) {
    throw BootstrapError(text("it threw what is no std::exception"));
  }
}

ProgramStore::ProgramStore(std::shared_ptr<Store> store, const Options& options)
    : store_(std::move(store)),
      prefix_(options.prefix),
      rank_(options.rank),
      secret_(secret_of(options)),
      shared_(secret_.value_or(Secret::from_text(""))) {
  if (!store_)
    throw InvalidArgument(fmt::format("rank {}: join: there is no store: pass one", rank_));
  if (prefix_.empty() || prefix_.size() > longest_prefix)
    throw InvalidArgument(fmt::format("rank {}: join: a prefix of {} characters: use 1 to {}",
                                      rank_, prefix_.size(), longest_prefix));
  take_place();
}

/// Two communicators under one prefix would take each other's addresses for their own.
void ProgramStore::take_place() {
  const std::string key = fmt::format("taken/{}", rank_);
  const bool taken = call("try_get", key, Deadline::never(),
                          [&] { return store_->try_get(full(key)).has_value(); });
  if (taken)
    throw InvalidArgument(fmt::format(
        "rank {}: join: rank {} has come to the prefix \"{}\" of this store before: give each "
        "communicator a prefix of its own, and each process a rank of its own",
        rank_, rank_, prefix_));
  put(key, {});
}

std::string ProgramStore::full(std::string_view key) const {
  return fmt::format("{}/{}", prefix_, key);
}

void ProgramStore::put(std::string_view key, std::span<const std::byte> value) {
  wire::check_key(key);
  std::vector<std::byte> marked{secret_ ? encrypted : plain};
  const auto content =
      secret_ ? encrypt(*secret_, value, full(key)) : std::vector(value.begin(), value.end());
  marked.insert(marked.end(), content.begin(), content.end());
  wire::check_value(key, marked);
  call("put", key, Deadline::never(), [&] { store_->put(full(key), marked); });
}

std::vector<std::byte> ProgramStore::get(std::string_view key, Deadline deadline) {
  wire::check_key(key);
  return opened(key, call("get", key, deadline, [&] { return store_->get(full(key), deadline); }));
}

std::optional<std::vector<std::byte>> ProgramStore::try_get(std::string_view key) {
  wire::check_key(key);
  const auto value =
      call("try_get", key, Deadline::never(), [&] { return store_->try_get(full(key)); });
  if (!value) return std::nullopt;
  return opened(key, *value);
}

std::vector<std::byte> ProgramStore::opened(std::string_view key,
                                            std::span<const std::byte> value) const {
  const auto refuse = [&](const char* what) {
    throw BootstrapError(
        fmt::format("rank {}: get(\"{}\") of the program's store: {}: give all ranks the same "
                    "secret (Settings::secret, CAPSTAN_SECRET), or none",
                    rank_, full(key), what),
        ErrorCode::wrong_secret);
  };
  if (value.empty() || (value.front() != plain && value.front() != encrypted))
    throw BootstrapError(
        fmt::format("rank {}: get(\"{}\") of the program's store: the value is not Capstan's: give "
                    "each communicator a prefix of its own",
                    rank_, full(key)));
  const bool is_encrypted = value.front() == encrypted;
  if (is_encrypted && !secret_) refuse("the value is encrypted, and this rank has no secret");
  if (!is_encrypted && secret_) refuse("the value is not encrypted, though this rank has a secret");
  const auto content = value.subspan(1);
  if (!secret_) return {content.begin(), content.end()};
  auto data = decrypt(*secret_, content, full(key));
  if (!data) refuse("the value was made with another secret, or changed in the store");
  return std::move(*data);
}

}  // namespace capstan
