// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "core/tools/cli/topology/xml.hpp"

namespace capstan::cli {
namespace {

constexpr std::uint32_t most_units = 1 << 20;

/// A set of processing units as hwloc writes it: words of 32 bits in hexadecimal, the highest
/// first. Empty words are 0, and "0xf...f" in front means that all higher units are in the set.
class UnitSet {
 public:
  UnitSet() = default;
  /// Refuses a set that is none, at the place of the element.
  UnitSet(const std::string& text, const XmlElement& element, const std::string& path) {
    constexpr std::string_view all = "0xf...f";
    std::size_t at = 0;
    full_ = text.starts_with(all);
    if (full_ && text.size() == all.size()) return;
    if (full_) at = all.size() + 1;
    for (; at < text.size() || words_.empty(); ++at) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      const auto word = word_of(std::string_view{text}.substr(at, end - at));
      if (!word || words_.size() >= most_units / 32)
        element.refuse(path, fmt::format("allowed_cpuset=\"{}\" is no set of processing units: "
                                         "write the file anew, by lstopo FILE.xml",
                                         text.substr(0, 60)));
      words_.push_back(*word);
      at = end;
    }
  }

  bool contains(std::uint32_t unit) const {
    const std::size_t word = unit / 32;
    if (word >= words_.size()) return full_;
    return (words_[words_.size() - 1 - word] >> unit % 32 & 1) != 0;
  }

 private:
  static std::optional<std::uint32_t> word_of(std::string_view text) {
    if (text.empty()) return 0;
    if (!text.starts_with("0x")) return std::nullopt;
    std::uint32_t word = 0;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data() + 2, last, word, 16);
    return error == std::errc{} && end == last ? std::optional{word} : std::nullopt;
  }

  std::vector<std::uint32_t> words_;  // the highest first
  bool full_ = true;
};

/// Counts the cores with a processing unit that may be used. hwloc itself would read the file, but
/// trusts what stands in it: sets that are missing or contradict each other end the process.
class HwlocHost {
 public:
  HwlocHost(const std::vector<XmlElement>& elements, const std::string& path)
      : elements_(elements), path_(path) {}

  TopologyFile read() {
    for (const XmlElement& element : elements_) {
      if (element.depth <= core_depth_) core_depth_ = none;
      if (element.name == "object") read_object(element);
      if (element.name == "info") read_info(element);
    }
    if (cores_ == 0)
      elements_.front().refuse(path_,
                               "describes no core that can be used: write the file anew, by lstopo "
                               "FILE.xml");
    TopologyFile file;
    file.ranks_per_host = cores_;
    file.summary = fmt::format("hosts like {}: {} core{}", model_.empty() ? path_ : model_, cores_,
                               cores_ == 1 ? "" : "s");
    return file;
  }

 private:
  static constexpr int none = -1;

  void read_object(const XmlElement& element) {
    const std::string* type = element.find("type");
    if (!type)
      element.refuse(path_,
                     "an object without 'type', which hwloc writes: add it, or write the "
                     "file anew, by lstopo FILE.xml");
    if (*type == "Machine")
      if (const std::string* set = element.find("allowed_cpuset"))
        allowed_ = UnitSet{*set, element, path_};
    if (*type == "Core") {
      core_depth_ = element.depth;
      core_counts_ = false;
    }
    if (*type == "PU") read_unit(element);
  }

  void read_unit(const XmlElement& element) {
    const std::string* text = element.find("os_index");
    std::uint32_t unit = most_units;
    if (text) {
      const char* const last = text->data() + text->size();
      if (std::from_chars(text->data(), last, unit).ptr != last) unit = most_units;
    }
    if (unit >= most_units)
      element.refuse(path_, fmt::format("a PU whose os_index is no number below {}: correct it, or "
                                        "write the file anew, by lstopo FILE.xml",
                                        most_units));
    if (!allowed_.contains(unit)) return;
    if (core_depth_ == none || !core_counts_) ++cores_;
    core_counts_ = true;
  }

  void read_info(const XmlElement& element) {
    const std::string *name = element.find("name"), *value = element.find("value");
    if (name && value && *name == "CPUModel" && model_.empty()) model_ = *value;
  }

  const std::vector<XmlElement>& elements_;
  const std::string& path_;
  UnitSet allowed_;
  int cores_ = 0;
  int core_depth_ = none;     // of the core that is open
  bool core_counts_ = false;  // it has a unit that may be used
  std::string model_;
};

}  // namespace

TopologyFile read_hwloc_host(const std::vector<XmlElement>& elements, const std::string& path) {
  return HwlocHost{elements, path}.read();
}

}  // namespace capstan::cli
