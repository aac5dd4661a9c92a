// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "capstan/backends/backend.hpp"
#include "capstan/backends/config.hpp"
#include "capstan/export.hpp"

namespace CAPSTAN_EXPORT capstan {

/// Whether a backend can be made on this machine; if not, why, and what to do about it, which the
/// reason may say as well.
struct Availability {
  bool available = true;
  std::string reason{};
  std::string remedy{};
};

/// Makes backends of one kind. All functions are called with no lock held and may run in several
/// threads at once.
class BackendFactory {
 public:
  virtual ~BackendFactory() = default;
  /// In lower case.
  virtual std::string name() const = 0;
  /// "auto" takes the available backend with the highest. Capstan has 100, nccl 70, rccl 60, mpi
  /// 50, mock 0.
  virtual int priority() const = 0;
  /// Asked once in the life of a process. Initialises nothing. What it throws is a reason.
  virtual Availability look() const = 0;
  virtual std::unique_ptr<Backend> create(const BackendConfig& config) const = 0;
};

/// The backends that this process knows. Thread-safe.
class BackendRegistry {
 public:
  /// The registry that create_backend() uses, with Capstan's own backends in it.
  static BackendRegistry& instance();

  BackendRegistry() = default;
  BackendRegistry(const BackendRegistry&) = delete;

  /// Throws InvalidArgument if there is one of that name, or the name is "auto" or not in lower
  /// case.
  void add(std::shared_ptr<const BackendFactory> factory);
  /// The names, those of the highest priority first.
  std::vector<std::string> names() const;
  /// Throws InvalidArgument for a name that is not known, and nothing else.
  Availability availability(std::string_view name) const;
  bool is_available(std::string_view name) const { return availability(name).available; }
  int priority(std::string_view name) const;
  /// `name` in any case, or "auto". Throws InvalidArgument that lists the known names, NotSupported
  /// with reason and remedy if the backend is not available, and what the backend throws. A
  /// configuration whose key "library" names the file of a library is tried in any case.
  std::unique_ptr<Backend> create(std::string_view name, const BackendConfig& config = {}) const;

 private:
  struct Entry {
    std::shared_ptr<const BackendFactory> factory;
    std::once_flag looked;
    Availability found;
  };
  std::shared_ptr<Entry> find(std::string_view name) const;
  std::shared_ptr<Entry> best() const;
  std::vector<std::shared_ptr<Entry>> by_priority() const;
  static const Availability& look(Entry& entry);

  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>, std::less<>> entries_;
};

/// Makes a backend by its name, in any case: "mock", "capstan", "mpi", "nccl", "rccl", one that the
/// program has added to BackendRegistry::instance(), or "auto", the best there is.
[[nodiscard]] inline std::unique_ptr<Backend> create_backend(std::string_view name = "mock",
                                                             const BackendConfig& config = {}) {
  return BackendRegistry::instance().create(name, config);
}

}  // namespace CAPSTAN_EXPORT capstan
