// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "capstan/export.hpp"

namespace CAPSTAN_EXPORT capstan {

/// Creates the BackendConfig::unique_id of one world of the backend "nccl": one process calls this
/// and passes the text to the other ranks by its own means. Loads NCCL; `library` names its file,
/// where the loader does not find it. Throws NotSupported where there is none that can be used.
[[nodiscard]] std::string create_nccl_unique_id(const std::string& library = {});
/// The same for RCCL and the backend "rccl".
[[nodiscard]] std::string create_rccl_unique_id(const std::string& library = {});

/// The version of NCCL, for example 22809 for 2.28.9. Throws NotSupported.
[[nodiscard]] int nccl_version(const std::string& library = {});
[[nodiscard]] int rccl_version(const std::string& library = {});

}  // namespace CAPSTAN_EXPORT capstan
