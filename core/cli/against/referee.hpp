#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/deadline.hpp"
#include "core/base/file_descriptor.hpp"
#include "core/cli/against/players.hpp"
#include "core/cli/against/protocol.hpp"
#include "core/cli/launcher/child.hpp"
#include "core/cli/launcher/output.hpp"

namespace capstan::cli {

/// Starts all players of a comparison with the same number of ranks on the same cores, and tells
/// one of them at a time what to do; the others sleep meanwhile.
class Referee {
 public:
  Referee(std::vector<PlayerSpec> players, int ranks);
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
    Child child{};
    std::vector<FileDescriptor> ranks{};  // their sockets
    std::vector<LineForwarder> output{};
    std::optional<std::string> out{};
  };

  void listen();
  void start(std::size_t player);
  void accept_all();
  void accept_one();
  void begin();
  void forward_output(Player& player);
  bool wait_for(Player& player, FileDescriptor& rank, const Deadline& deadline);
  void dismiss(Player& player, const std::string& reason);

  const int ranks_;
  const std::string name_, store_;
  FileDescriptor listener_, memory_;
  std::vector<Player> players_;
};

}  // namespace capstan::cli
