#pragma once

#include <rdma/fabric.h>

#include <memory>
#include <string>

#include "transports/ofi/ofi_transport.hpp"
#include "transports/ofi/provider_choice.hpp"

namespace capstan::ofi {

struct FreeInfo {
  void operator()(fi_info* info) const;
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

/// The few functions that libfabric exports; all others are reached through its objects.
///
/// It is loaded at run time rather than linked, for two reasons. Loading it loads PSM, which takes
/// over SIGSEGV, SIGINT and others unless IPATH_NO_BACKTRACE is set before; a program that links
/// it has no chance to. And programs that use no network do not pay for a dozen libraries.
class Library {
 public:
  /// Loads libfabric at the first call, for good. Throws SystemError when it cannot be loaded.
  static const Library& get();

  std::string version() const;
  /// What there is for endpoints of type FI_EP_RDM; null when there is nothing. `hints` may be
  /// null: everything is listed. Throws SystemError.
  Info query(const fi_info* hints) const;
  Info copy(const fi_info* info) const { return Info{dupinfo_(info)}; }
  /// Empty hints, to be filled in.
  Info hints() const { return Info{dupinfo_(nullptr)}; }
  fid_fabric* open_fabric(const fi_info& info) const;
  /// The text of an error; negative codes are taken as positive.
  std::string text(long error) const;

 private:
  friend struct FreeInfo;
  Library();

  decltype(&::fi_getinfo) getinfo_;
  decltype(&::fi_freeinfo) freeinfo_;
  decltype(&::fi_dupinfo) dupinfo_;
  decltype(&::fi_fabric) fabric_;
  decltype(&::fi_strerror) strerror_;
  decltype(&::fi_version) version_;
};

/// The entry of fi_getinfo(3) in the terms of the choice.
Candidate candidate_of(const fi_info& info);

/// What was found here, and the choice among it.
struct Survey {
  Info list;  // as libfabric lists it
  std::vector<const fi_info*> entries;
  std::vector<Candidate> candidates;  // as entries
  Choice choice;
};
Survey survey(const OfiOptions& options);

}  // namespace capstan::ofi
