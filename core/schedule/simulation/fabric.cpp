// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/simulation/fabric.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "capstan/error.hpp"

namespace capstan {
namespace {

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
}

int divide_up(int n, int by) {
  return (n + by - 1) / by;
}

/// A switch that never blocks: two messages meet only where they share a port.
class Flat final : public Fabric {
 public:
  using Fabric::Fabric;
  std::string description() const override {
    return fmt::format("one switch that never blocks, {} ports", ports());
  }
  bool uniform() const override { return true; }
};

/// Leaf switches, the spines of each pod, and cores above the spines (Leiserson, 1985; folded
/// Clos). The destination picks the spine and the core, so that messages to different ports spread.
class FatTree final : public Fabric {
 public:
  /// Hosts of `rails` ports each: port i of all hosts goes to leaves of its own.
  FatTree(int ports, std::vector<LinkClass> classes, const FabricSpec& spec, int rails)
      : Fabric(ports, std::move(classes)),
        rails_(rails),
        down_(std::max(spec.radix / 2, 1)),
        up_(std::max(static_cast<int>(std::lround(down_ / spec.oversubscription)), 1)),
        leaves_(rails * divide_up(divide_up(ports, rails), down_)),
        pods_(divide_up(leaves_, down_)) {}

  std::string description() const override {
    return fmt::format("{} of {} ports: {} leaf switches in {} pod{}, {} ports down and {} up each",
                       rails_ > 1 ? fmt::format("{} rails", rails_) : "fat tree", ports(), leaves_,
                       pods_, pods_ == 1 ? "" : "s", down_, up_);
  }
  /// Ports of a leaf of a rail do not lie side by side.
  std::vector<Partition> partitions() const override {
    const double link = 1 / classes()[switch_class].byte;
    if (rails_ > 1) return {};
    return {{"leaf switch", down_, up_ * link}, {"pod", down_ * down_, up_ * down_ * link}};
  }

 private:
  int leaf_of(int port) const { return port % rails_ + port / rails_ / down_ * rails_; }
  int pod_of(int leaf) const { return leaf / down_; }
  int leaf_links() const { return leaves_ * up_; }
  int pod_links() const { return pods_ > 1 ? pods_ * up_ * down_ : 0; }
  int inner_links() const override { return 2 * (leaf_links() + pod_links()); }

  void route_between(int from, int to, std::vector<int>& links) const override {
    const int source = leaf_of(from), target = leaf_of(to);
    if (source == target) return;
    const int spine = to % up_, core = to / up_ % down_;
    links.push_back(inner(source * up_ + spine));
    if (pod_of(source) != pod_of(target)) {
      const int pods = 2 * leaf_links();
      links.push_back(inner(pods + (pod_of(source) * up_ + spine) * down_ + core));
      links.push_back(inner(pods + pod_links() + (pod_of(target) * up_ + spine) * down_ + core));
    }
    links.push_back(inner(leaf_links() + target * up_ + spine));
  }

  std::string inner_name(int link) const override {
    if (link < 2 * leaf_links())
      return fmt::format("leaf {} spine {} {}", link % leaf_links() / up_, link % up_,
                         link < leaf_links() ? "up" : "down");
    link -= 2 * leaf_links();
    const int of = link % pod_links();
    return fmt::format("pod {} spine {} core {} {}", of / down_ / up_, of / down_ % up_, of % down_,
                       link < pod_links() ? "up" : "down");
  }

  const int rails_, down_, up_, leaves_, pods_;
};

/// Groups whose routers are all joined, with one link from each group to each other one (Kim,
/// Dally, Scott and Abts, 2008). Messages take the shortest way.
class Dragonfly final : public Fabric {
 public:
  Dragonfly(int ports, std::vector<LinkClass> classes, const FabricSpec& spec)
      : Fabric(ports, std::move(classes)),
        routers_(spec.routers),
        each_(spec.hosts),
        groups_(divide_up(ports, static_cast<int>(std::min(std::int64_t{routers_} * each_,
                                                           std::int64_t{ports})))) {}

  std::string description() const override {
    return fmt::format("dragonfly of {} ports: {} group{} of {} routers with {} ports each",
                       ports(), groups_, groups_ == 1 ? "" : "s", routers_, each_);
  }
  std::vector<Partition> partitions() const override {
    const double local = 1 / classes()[switch_class].byte,
                 global = 1 / classes()[global_class].byte;
    return {{"router", each_, (routers_ - 1) * local + divide_up(groups_ - 1, routers_) * global},
            {"group", routers_ * each_, (groups_ - 1) * global}};
  }

 private:
  int router_of(int port) const { return port / each_; }
  int group_of(int port) const { return router_of(port) / routers_; }
  /// The router of `group` that has the link to `other`.
  int gateway(int group, int other) const {
    return group * routers_ + (other - group + groups_) % groups_ % routers_;
  }
  int local_links() const { return groups_ * routers_ * routers_; }
  int inner_links() const override { return local_links() + groups_ * groups_; }
  int inner_class(int link) const override {
    return link < local_links() ? switch_class : global_class;
  }

  void route_between(int from, int to, std::vector<int>& links) const override {
    const int source = group_of(from), target = group_of(to);
    int at = router_of(from);
    const auto go = [&](int router) {
      if (at != router) links.push_back(inner(at * routers_ + router % routers_));
      at = router;
    };
    if (source != target) {
      go(gateway(source, target));
      links.push_back(inner(local_links() + source * groups_ + target));
      at = gateway(target, source);
    }
    go(router_of(to));
  }

  std::string inner_name(int link) const override {
    if (link >= local_links())
      return fmt::format("group {} to group {}", (link - local_links()) / groups_,
                         (link - local_links()) % groups_);
    return fmt::format("group {} router {} to router {}", link / routers_ / routers_,
                       link / routers_ % routers_, link % routers_);
  }

  const int routers_, each_, groups_;
};

/// A grid whose rows are closed to rings; messages go along one dimension after the other.
class Torus final : public Fabric {
 public:
  Torus(int ports, std::vector<LinkClass> classes, std::vector<int> dims)
      : Fabric(ports, std::move(classes)), dims_(std::move(dims)) {}

  std::string description() const override {
    return fmt::format("torus of {} ports: {}", ports(), fmt::join(dims_, " x "));
  }
  /// Halves along the last dimension, which two faces join.
  std::vector<Partition> partitions() const override {
    const int length = dims_.back(), layer = ports() / length;
    return {{"half of the torus", divide_up(length, 2) * layer,
             2 * layer / classes()[switch_class].byte}};
  }

 private:
  int directions() const { return 2 * static_cast<int>(dims_.size()); }
  int inner_links() const override { return ports() * directions(); }

  void route_between(int from, int to, std::vector<int>& links) const override {
    int at = from;
    for (int d = 0, stride = 1; d < static_cast<int>(dims_.size()); stride *= dims_[index(d++)]) {
      const int length = dims_[index(d)];
      const int here = at / stride % length, there = to / stride % length;
      const int right = (there - here + length) % length;
      const bool forward = 2 * right <= length;
      for (int hop = 0, place = here; hop < (forward ? right : length - right); ++hop) {
        links.push_back(inner(at * directions() + 2 * d + (forward ? 0 : 1)));
        const int next = (place + (forward ? 1 : length - 1)) % length;
        at += (next - place) * stride;
        place = next;
      }
    }
  }

  std::string inner_name(int link) const override {
    return fmt::format("node {} {}{}", link / directions(), link % 2 == 0 ? '+' : '-',
                       link % directions() / 2);
  }

  const std::vector<int> dims_;
};

/// Two or three factors of `ports`, as equal as possible.
std::vector<int> even_dims(int ports) {
  std::vector<int> dims;
  for (int left = 3; left > 1; --left) {
    int factor = static_cast<int>(std::pow(ports, 1.0 / left) + 1e-9);
    while (ports % factor != 0) --factor;
    dims.push_back(factor);
    ports /= factor;
  }
  dims.push_back(ports);
  return dims;
}

std::vector<LinkClass> classes_of(const FabricSpec& spec) {
  const double inner = spec.switch_bandwidth > 0 ? spec.switch_bandwidth : spec.bandwidth;
  return {{"port", spec.latency, 1 / spec.bandwidth},
          {"switch", spec.switch_latency, 1 / inner},
          {"global", spec.global_latency, 1 / inner}};
}

[[noreturn]] void refuse(const std::string& what) {
  throw InvalidArgument(what);
}

/// The most links between switches: the load of each link is kept, in 32 bytes.
constexpr double most_links = 100e6;

/// The links between switches, before they are counted in ints.
double inner_links(const FabricSpec& spec, double ports, double rails) {
  if (spec.kind == "dragonfly") {
    const double groups = std::ceil(ports / (1.0 * spec.routers * spec.hosts));
    return groups * spec.routers * spec.routers + groups * groups;
  }
  if (spec.kind == "torus") return 2 * ports * static_cast<double>(spec.dims.size());
  if (spec.kind == "flat") return 0;
  const double down = std::max(spec.radix / 2, 1), up = down / spec.oversubscription;
  const double leaves = rails * std::ceil(std::ceil(ports / rails) / down);
  return 2 * leaves * up + (leaves > down ? 2 * std::ceil(leaves / down) * up * down : 0);
}

void check_size(const FabricSpec& spec, int ports, int rails) {
  const double links = inner_links(spec, ports, rails);
  if (links > most_links)
    refuse(
        fmt::format("a {} of {} ports with these properties has {:.2g} links between switches, "
                    "and {:.2g} can be simulated: change its radix, oversubscription, routers, "
                    "hosts or dims",
                    spec.kind, ports, links, most_links));
}

}  // namespace

std::string Fabric::name_of(int link) const {
  if (link < ports_) return fmt::format("port {} up", link);
  if (link < 2 * ports_) return fmt::format("port {} down", link - ports_);
  return inner_name(link - 2 * ports_);
}

void Fabric::route(int from, int to, std::vector<int>& links) const {
  links.push_back(from);
  route_between(from, to, links);
  links.push_back(ports_ + to);
}

std::vector<std::string> fabric_kinds() {
  return {"flat", "fat-tree", "dragonfly", "torus", "rail"};
}

std::shared_ptr<const Fabric> make_fabric(const FabricSpec& spec, int ports, int ports_per_host) {
  const auto classes = classes_of(spec);
  check_size(spec, ports, spec.kind == "rail" ? ports_per_host : 1);
  if (spec.kind == "flat") return std::make_shared<Flat>(ports, classes);
  if (spec.kind == "fat-tree") return std::make_shared<FatTree>(ports, classes, spec, 1);
  if (spec.kind == "rail") return std::make_shared<FatTree>(ports, classes, spec, ports_per_host);
  if (spec.kind == "dragonfly") return std::make_shared<Dragonfly>(ports, classes, spec);
  if (spec.kind != "torus")
    refuse(fmt::format("no network is called '{}': there are {}", spec.kind,
                       fmt::join(fabric_kinds(), ", ")));
  const auto dims = spec.dims.empty() ? even_dims(ports) : spec.dims;
  const double nodes = std::accumulate(dims.begin(), dims.end(), 1.0, std::multiplies<>{});
  if (nodes != ports)
    refuse(fmt::format("a torus of {} has {:.0f} ports, and {} are needed: one for each host",
                       fmt::join(dims, "x"), nodes, ports));
  return std::make_shared<Torus>(ports, classes, dims);
}

}  // namespace capstan
