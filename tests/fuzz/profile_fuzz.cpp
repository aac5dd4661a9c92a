// SPDX-License-Identifier: Apache-2.0

// Feeds arbitrary text, and profiles with changes, to what reads profiles. It must refuse them with
// one of Capstan's errors or make sense of them: look for faults, hand them to other libraries,
// choose by them, and write them so that they can be read again.

#include <cmath>
#include <optional>

#include "capstan/error.hpp"
#include "capstan/version.hpp"
#include "core/profiles/check_profile.hpp"
#include "core/profiles/export_profile.hpp"
#include "core/profiles/profile.hpp"
#include "tests/fuzz/json_edits.hpp"

using namespace capstan;
using fuzz::require;

namespace {

const Fingerprint machine{"0123456789abcdef", "a machine"};

MeasuredCell cell_of(Collective collective, int ranks, int hosts, Bytes bytes) {
  MeasuredCell cell{collective, ranks, hosts, bytes, 0.9, {}};
  double time = 1000 + static_cast<double>(bytes.value());
  for (const Algorithm& algorithm : algorithms(collective))
    cell.ways.push_back({&algorithm, Protocol::staged, 1, time *= 1.5, 0.1});
  return cell;
}

/// A profile chooses by times that can be compared.
void choose_by(const Profile& profile) {
  const MeasuredTimes times = measured_times(profile, "tcp", "file");
  for (const Collective collective : all_collectives())
    for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{5000}, ~std::uint64_t{0}}) {
      const MeasuredCell cell = times.at(collective, 2, 1, Bytes{bytes});
      for (const MeasuredWay& way : cell.ways)
        require(way.algorithm && way.nanoseconds >= 0 && std::isfinite(way.nanoseconds));
    }
  const LinkModel model = model_scales(profile, "tcp").at(Hosts{2}).applied({});
  for (const ModelFactor& factor : model_factors())
    for (double LinkModel::* const constant : factor.constants)
      require(std::isfinite(model.*constant));
}

/// Such as `capstan tune` writes.
const std::vector<nlohmann::json>& documents() {
  static const std::vector<nlohmann::json> all = [] {
    Profile one_host{std::string{version()}, machine}, two_hosts = one_host;
    MeasuredGroup& alone = one_host.group(2, 1, "");
    alone.date = "2026-11-25T06:00:00Z";
    for (const Collective collective : {Collective::all_reduce, Collective::reduce_scatter})
      for (const std::uint64_t bytes : {8, 4096, 1 << 20})
        alone.put(cell_of(collective, 2, 1, Bytes{bytes}));
    alone.model = ModelScale{};
    MeasuredGroup& apart = two_hosts.group(4, 2, "tcp");
    apart.under_load = "make";
    apart.put(cell_of(Collective::all_gather, 4, 2, Bytes{65536}));
    return std::vector{nlohmann::json::parse(to_json(one_host)),
                       nlohmann::json::parse(to_json(two_hosts))};
  }();
  return all;
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  return json_seeds(documents());
}

namespace {

void use(const Profile& profile) {
  for (const std::string& finding : check_profile(profile, machine)) require(!finding.empty());
  for (const auto format :
       {TuningFormat::nccl, TuningFormat::open_mpi_4, TuningFormat::open_mpi_6, TuningFormat::ucc})
    require(!export_profile(profile, format).empty());
  choose_by(profile);
  const std::string written = to_json(profile);
  require(to_json(parse_profile(written, "file")) == written);
}

std::optional<Profile> read(const std::string& text) {
  try {
    return parse_profile(text, "file");
  } catch (const Error& error) {
    require(!std::string_view{error.what()}.empty());
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Source source{data, size};
  if (const auto profile = read(fuzz::json_text(source, documents()))) use(*profile);
  return 0;
}
