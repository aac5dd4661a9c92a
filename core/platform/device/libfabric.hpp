// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rdma/fabric.h>

#include <memory>
#include <string>

#include "core/platform/net/shared_library.hpp"

namespace capstan {

/// The few functions that libfabric exports; all others are reached through its objects.
///
/// libfabric is loaded at run time rather than linked, for two reasons. First, libfabric loads PSM,
/// which takes over SIGSEGV, SIGINT and others unless IPATH_NO_BACKTRACE is set before; a program
/// that links libfabric cannot set that in time. Second, programs that use no network do not pay
/// for a dozen libraries.
class Libfabric {
 public:
  struct FreeInfo {
    decltype(&::fi_freeinfo) free = nullptr;
    void operator()(fi_info* info) const { free(info); }
  };
  using Info = std::unique_ptr<fi_info, FreeInfo>;

  /// Loads libfabric at the first call, for good. Throws SystemError when it cannot be loaded.
  static const Libfabric& get();
  /// Throws SystemError when the library lacks a function.
  explicit Libfabric(std::shared_ptr<SharedLibrary> library, bool keeps_registrations = true);

  std::string version() const;
  /// Whether closed registrations may stay valid in its cache, as far as a provider uses that. True
  /// where the user wants the cache, or somebody has loaded the library before.
  bool keeps_registrations() const { return keeps_registrations_; }
  /// The endpoints of type FI_EP_RDM that match `hints`; null when there are none. Null hints match
  /// all. Throws SystemError.
  Info query(const fi_info* hints) const;
  Info copy(const fi_info* info) const { return Info{dupinfo_(info), {freeinfo_}}; }
  /// Empty hints, to be filled in.
  Info hints() const { return copy(nullptr); }
  fid_fabric* open_fabric(const fi_info& info) const;
  /// The text of an error code, whichever its sign.
  std::string text(long error) const;

 private:
  template <class Function>
  void resolve(const char* name, Function*& function) const;

  std::shared_ptr<SharedLibrary> library_;
  bool keeps_registrations_;
  decltype(&::fi_getinfo) getinfo_ = nullptr;
  decltype(&::fi_freeinfo) freeinfo_ = nullptr;
  decltype(&::fi_dupinfo) dupinfo_ = nullptr;
  decltype(&::fi_fabric) fabric_ = nullptr;
  decltype(&::fi_strerror) strerror_ = nullptr;
  decltype(&::fi_version) version_ = nullptr;
};

}  // namespace capstan
