// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace capstan {

/// A library that was loaded at run time, so that nothing links against a driver.
class SharedLibrary {
 public:
  virtual ~SharedLibrary() = default;

  /// The address of a symbol; null when the library has none of that name.
  virtual void* symbol(const char* name) const = 0;

  /// Sets `function` to the symbol; to null when there is none.
  template <class Function>
  void find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(symbol(name));
  }
};

/// Opens libraries. Tests replace it.
class LibraryLoader {
 public:
  virtual ~LibraryLoader() = default;

  /// Opens the first of these that exists ("libcuda.so.1"), or returns null.
  virtual std::shared_ptr<SharedLibrary> open(const std::vector<std::string>& names) const = 0;
  /// The first of these that this process has loaded already, or null.
  virtual std::shared_ptr<SharedLibrary> loaded(const std::vector<std::string>& names) const = 0;
};

/// The file names of HIP's runtime.
inline std::vector<std::string> hip_libraries() {
  return {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
}

/// dlopen(3). Libraries stay loaded: drivers leave threads and handlers behind.
const LibraryLoader& system_loader();

}  // namespace capstan
