// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/shared_library.hpp"

#include <dlfcn.h>

namespace capstan {
namespace {

class LoadedLibrary : public SharedLibrary {
 public:
  explicit LoadedLibrary(void* handle) : handle_(handle) {}
  void* symbol(const char* name) const override { return ::dlsym(handle_, name); }

 private:
  void* handle_;
};

class SystemLoader : public LibraryLoader {
 public:
  std::shared_ptr<SharedLibrary> open(const std::vector<std::string>& names) const override {
    return first(names, 0);
  }
  std::shared_ptr<SharedLibrary> loaded(const std::vector<std::string>& names) const override {
    return first(names, RTLD_NOLOAD);
  }

 private:
  static std::shared_ptr<SharedLibrary> first(const std::vector<std::string>& names, int flags) {
    for (const std::string& name : names)
      if (void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | flags))
        return std::make_shared<LoadedLibrary>(handle);
    return nullptr;
  }
};

}  // namespace

const LibraryLoader& system_loader() {
  static const auto& loader = *new SystemLoader;
  return loader;
}

}  // namespace capstan
