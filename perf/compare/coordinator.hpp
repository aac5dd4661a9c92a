#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capstan/deadline.hpp"
#include "core/bootstrap/store/store_client.hpp"
#include "core/bootstrap/store/store_server.hpp"
#include "core/launcher/child.hpp"
#include "core/launcher/output.hpp"
#include "perf/compare/protocol.hpp"
#include "perf/compare/workers.hpp"

namespace capstan::cli {

/// Starts all players of a comparison with the same number of ranks on the same cores, and tells
/// one of them at a time what to do; the others sleep meanwhile. They reach it at `address`, one of
/// this host, and prove that they know its secret.
class Referee {
 public:
  Referee(std::vector<PlayerSpec> players, int ranks, const std::string& address);
  /// Ends what it has started.
  ~Referee();
  Referee(const Referee&) = delete;

  std::size_t players() const { return players_.size(); }
  const PlayerSpec& spec(std::size_t player) const { return players_[player].spec; }
  /// Why a player does not take part any more.
  const std::optional<std::string>& out(std::size_t player) const { return players_[player].out; }

  /// All ranks of a player do this; the slowest time and the sum of wrong values come back. Failed
  /// if the library cannot do it. A player that does not answer is out.
  against::Answer order(std::size_t player, const against::Order& order);

 private:
  struct Player {
    PlayerSpec spec;
    std::string scope{};
    std::unique_ptr<StoreClient> table{};  // where orders and answers are put
    std::uint64_t orders = 0;
    Child child{};
    std::vector<LineForwarder> output{};
    std::optional<std::string> out{};
  };

  void start(Player& player);
  void join(Player& player, const Deadline& deadline);
  std::optional<against::Answer> await(Player& player, int rank, const Deadline& deadline);
  void dismiss(Player& player, const std::string& reason);

  const int ranks_;
  const std::string secret_;
  StoreServer server_;
  std::vector<Player> players_;
};

}  // namespace capstan::cli
