// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace capstan {

/// How links of one kind carry messages. Times are nanoseconds.
struct LinkClass {
  std::string name;
  double latency = 0;  ///< of the link and of the switch behind it
  double byte = 0;     ///< per byte: 1 / bandwidth, in bytes per nanosecond (GB/s)
};

/// A network with one port for each host, or for each rank. Links have one direction. Links 0 ..
/// ports()-1 lead from a port into the network, the next ports() links lead from it to a port; what
/// lies between is up to each kind of network. Immutable.
class Fabric {
 public:
  /// Classes of the links at ports, and of those between switches.
  static constexpr int port_class = 0, switch_class = 1, global_class = 2;

  Fabric(int ports, std::vector<LinkClass> classes) : ports_(ports), classes_(std::move(classes)) {}
  virtual ~Fabric() = default;

  int ports() const { return ports_; }
  const std::vector<LinkClass>& classes() const { return classes_; }
  int links() const { return 2 * ports_ + inner_links(); }
  int class_of(int link) const {
    return link < 2 * ports_ ? port_class : inner_class(link - 2 * ports_);
  }
  const LinkClass& operator[](int link) const {
    return classes_[static_cast<std::size_t>(class_of(link))];
  }
  /// "port 3 up", "leaf 2 to spine 5".
  std::string name_of(int link) const;
  /// Appends the links that a message crosses, in order. Deterministic.
  void route(int from, int to, std::vector<int>& links) const;

  /// "fat tree of 64 ports ...".
  virtual std::string description() const = 0;
  /// Groups of ports that lie side by side, and what joins a group to the rest of the network.
  struct Partition {
    std::string what;
    int ports = 1;         ///< of a group; the last may have fewer
    double bandwidth = 0;  ///< of all links out of a group, in bytes per nanosecond (GB/s)
  };
  /// The partitions by which the network may limit a call; not that into single ports.
  virtual std::vector<Partition> partitions() const { return {}; }
  /// Whether every pair of ports has a path of its own between their links, all of one length: then
  /// ranks that do the same take the same time.
  virtual bool uniform() const { return false; }

 protected:
  int inner(int index) const { return 2 * ports_ + index; }

 private:
  virtual int inner_links() const { return 0; }
  virtual int inner_class(int) const { return switch_class; }
  virtual std::string inner_name(int) const { return {}; }
  virtual void route_between(int, int, std::vector<int>&) const {}

  const int ports_;
  const std::vector<LinkClass> classes_;
};

/// Between these lies what users write of links and costs. All times are then finite, as floats,
/// too.
inline constexpr double least_property = 1e-9, most_property = 1e9;

/// A network as a user writes it: "fat-tree", "torus:dims=8x8x4,bandwidth=12.5".
struct FabricSpec {
  std::string kind = "flat";
  double bandwidth = 25;        ///< of a port, in GB/s
  double latency = 300;         ///< of a port's link
  double switch_bandwidth = 0;  ///< of a link between switches; 0: as of a port
  double switch_latency = 150;  ///< of a link between switches
  double global_latency = 500;  ///< dragonfly: of a link between groups
  int radix = 64;               ///< fat tree, rails: ports of a switch
  double oversubscription = 1;  ///< fat tree, rails: ports of a leaf for each link up
  int routers = 16, hosts = 8;  ///< dragonfly: routers of a group, ports of a router
  std::vector<int> dims{};      ///< torus; empty: as equal as the number of ports allows
};

/// The kinds of networks: flat, fat-tree, dragonfly, torus, rail.
std::vector<std::string> fabric_kinds();

/// Reads KIND[:KEY=VALUE,...]. Throws InvalidArgument that names the column and the known keys.
FabricSpec parse_fabric(const std::string& text);

/// Makes the network. `ports_per_host`: for rails, whose switches join the ports of one number on
/// all hosts. Throws InvalidArgument when the description does not suit so many ports.
std::shared_ptr<const Fabric> make_fabric(const FabricSpec& spec, int ports,
                                          int ports_per_host = 1);

}  // namespace capstan
