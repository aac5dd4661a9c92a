#pragma once

#include <memory>
#include <string>
#include <vector>

namespace capstan {

/// A library that was loaded while running, so that nothing links against a driver.
class SharedLibrary {
 public:
  virtual ~SharedLibrary() = default;

  /// Null when the library has no such symbol.
  virtual void* symbol(const char* name) const = 0;

  /// The same as a function of the type that it is assigned to.
  template <class Function>
  void find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(symbol(name));
  }
};

/// Opens libraries; tests make some up.
class LibraryLoader {
 public:
  virtual ~LibraryLoader() = default;

  /// The first of these that there is ("libcuda.so.1"), or null.
  virtual std::shared_ptr<SharedLibrary> open(const std::vector<std::string>& names) const = 0;
  /// The same among those that this process has loaded already.
  virtual std::shared_ptr<SharedLibrary> loaded(const std::vector<std::string>& names) const = 0;
};

/// The names that HIP's runtime goes by.
inline std::vector<std::string> hip_libraries() {
  return {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
}

/// dlopen(3). Libraries stay loaded: drivers leave threads and handlers behind.
const LibraryLoader& system_loader();

}  // namespace capstan
