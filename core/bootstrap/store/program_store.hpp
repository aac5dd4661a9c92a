// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/bootstrap/store/store.hpp"
#include "core/platform/net/secret.hpp"

namespace capstan {

/// A store of the program, as one rank of one communicator sees it: keys have a prefix, values are
/// encrypted where the ranks share a secret, and what the store throws becomes a BootstrapError.
class ProgramStore final : public JobStore {
 public:
  struct Options {
    std::string prefix;
    int rank = 0;
    std::string secret{};  ///< empty: values are put as they are
  };

  /// Takes the rank's place under the prefix, which serves one communicator. Throws InvalidArgument
  /// for no store, a prefix of a forbidden length or in use already, and a secret that is too
  /// short.
  ProgramStore(std::shared_ptr<Store> store, const Options& options);

  void put(std::string_view key, std::span<const std::byte> value) override;
  std::vector<std::byte> get(std::string_view key, Deadline deadline) override;
  std::optional<std::vector<std::byte>> try_get(std::string_view key) override;
  const Secret& secret() const override { return shared_; }

 private:
  std::string full(std::string_view key) const;
  std::string named(std::string_view function, std::string_view key) const;
  std::vector<std::byte> opened(std::string_view key, std::span<const std::byte> value) const;
  void take_place();
  template <class Call>
  auto call(std::string_view function, std::string_view key, Deadline deadline, Call call) const;

  const std::shared_ptr<Store> store_;
  const std::string prefix_;
  const int rank_;
  const std::optional<Secret> secret_;
  const Secret shared_;
};

}  // namespace capstan
