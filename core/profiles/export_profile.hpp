// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/profiles/profile.hpp"

namespace capstan {

/// Forms in which other libraries read what is the fastest.
enum class TuningFormat : std::uint8_t {
  nccl,        ///< the table (CSV) of NCCL's tuner plug-in
  open_mpi_4,  ///< the rules file of Open MPI 4.1 (coll_tuned_dynamic_rules_filename)
  open_mpi_6,  ///< the same in JSON, for Open MPI 6
  ucc          ///< a score string for UCC_TL_UCP_TUNE
};

/// "nccl", "openmpi4", "openmpi6", "ucc". Empty when `word` is none of them.
std::optional<TuningFormat> tuning_format_named(std::string_view word);

/// A profile's choices for another library: for each kind and size the fastest of the measured
/// algorithms that the library has, too. Without a choice the library decides itself. What was
/// measured in memory of devices is left out.
std::string export_profile(const Profile& all, TuningFormat format);

}  // namespace capstan
