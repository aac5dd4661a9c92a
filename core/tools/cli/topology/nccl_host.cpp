// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/tools/cli/topology/xml.hpp"

namespace capstan::cli {
namespace {

/// Speeds, widths and counts are 0 or no less: what is computed from them is finite.
constexpr double least_number = 1e-3;

bool is_between(double value, double most) {
  return value == 0 || (value >= least_number && value <= most);
}

/// The number at the beginning of a text; 0 if there is none.
double leading_number(const std::string& text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// Reads what a simulation needs: GPUs, the links between them, and network cards.
class NcclHost {
 public:
  NcclHost(const std::vector<XmlElement>& elements, const std::string& path)
      : elements_(elements), path_(path) {}

  TopologyFile read() {
    for (const XmlElement& element : elements_) read(element);
    if (gpus_ == 0)
      elements_.front().refuse(path_,
                               "describes no GPU: dump the topology of a job that uses GPUs");
    TopologyFile file;
    file.ranks_per_host = gpus_;
    file.memory = between_gpus();
    file.costs = gpu_costs();
    file.ranks_have_ports = ports_ >= gpus_;
    if (ports_ > 0) {
      file.network.kind = file.ranks_have_ports ? "rail" : "fat-tree";
      file.network.bandwidth = port_bandwidth_ * (file.ranks_have_ports ? ports_ / gpus_ : ports_);
    }
    file.summary =
        fmt::format("hosts of {} GPU{}, {:.4g} GB/s between them by {}; {} network port{}", gpus_,
                    gpus_ == 1 ? "" : "s", 1 / file.memory.byte, file.memory.name, ports_,
                    ports_ == 1 ? "" : "s");
    if (ports_ > 0) file.summary += fmt::format(" of {:.4g} GB/s", port_bandwidth_);
    return file;
  }

 private:
  void read(const XmlElement& element) {
    if (element.name == "pci") read_pci(element);
    if (element.name == "gpu") ++gpus_, sm_ = number(element, "sm", 10'000);
    if ((element.name == "nvlink" || element.name == "xgmi") && gpus_ > 0) {
      link_name_ = element.name;
      if (gpus_ == 1) links_ += number(element, "count", 1000);
    }
    if (element.name == "net") read_net(element);
  }

  void read_pci(const XmlElement& element) {
    const std::string* speed = element.find("link_speed");
    const std::string* width = element.find("link_width");
    if (!speed || !width || speed->empty() || width->empty()) return;
    const double transfers = leading_number(*speed);  // "16.0 GT/s PCIe"
    if (!is_between(transfers, 10'000))
      element.refuse(path_, fmt::format("link_speed=\"{}\" is not GT/s, 0 or from {} to 10000: "
                                        "write such as \"16.0 GT/s PCIe\"",
                                        *speed, least_number));
    const double encoding = transfers > 5 ? 128.0 / 130 : 0.8;
    const double bandwidth = transfers * number(element, "link_width", 1000) / 8 * encoding;
    pci_bandwidth_ = std::max(pci_bandwidth_, bandwidth);
  }

  /// `speed` is Mbit/s. Of cards of different speed those that are fastest count.
  void read_net(const XmlElement& element) {
    const double bandwidth = number(element, "speed", 1e9) / 8000;
    if (bandwidth <= 0) element.refuse(path_, "a net of speed 0: write its Mbit/s, such as 200000");
    if (bandwidth > port_bandwidth_) port_bandwidth_ = bandwidth, ports_ = 0;
    if (bandwidth == port_bandwidth_) ++ports_;
  }

  LinkClass between_gpus() const {
    // A link in one direction: NVLink 1, 2 to 4, 5; xGMI.
    const double each = link_name_ == "xgmi" ? 50 : sm_ >= 100 ? 50 : sm_ >= 70 ? 25 : 20;
    if (links_ > 0) return {link_name_, 700, 1 / (each * links_)};
    return {"pci", 1500, 1 / (pci_bandwidth_ > 0 ? pci_bandwidth_ : 12.0)};
  }

  double number(const XmlElement& element, std::string_view name, double most) const {
    const std::string* text = element.find(name);
    if (!text)
      element.refuse(path_, fmt::format("a {} without '{}', which NCCL writes: add it, or dump the "
                                        "topology anew",
                                        element.name, name));
    double value = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error != std::errc{} || end != text->data() + text->size() || !is_between(value, most))
      element.refuse(path_,
                     fmt::format("{}=\"{}\" is neither 0 nor a number from {} to {:.0f}: correct "
                                 "it, or dump the topology anew",
                                 name, *text, least_number, most));
    return value;
  }

  const std::vector<XmlElement>& elements_;
  const std::string& path_;
  int gpus_ = 0, ports_ = 0;
  double sm_ = 0, links_ = 0, pci_bandwidth_ = 0, port_bandwidth_ = 0;
  std::string link_name_;
};

}  // namespace

TopologyFile read_nccl_host(const std::vector<XmlElement>& elements, const std::string& path) {
  return NcclHost{elements, path}.read();
}

}  // namespace capstan::cli
