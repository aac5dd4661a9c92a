// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/platform/net/shared_library.hpp"

namespace capstan {

/// Libraries whose functions the test defines.
class FakeLibraries : public LibraryLoader {
 public:
  class Symbols {
   public:
    template <class Result, class... Arguments>
    void add(const std::string& name, Result (*function)(Arguments...)) {
      all_[name] = reinterpret_cast<void*>(function);
    }
    void remove(const std::string& name) { all_.erase(name); }
    void* find(const std::string& name) const {
      const auto found = all_.find(name);
      return found == all_.end() ? nullptr : found->second;
    }

   private:
    std::map<std::string, void*> all_;
  };

  FakeLibraries() = default;
  FakeLibraries(std::initializer_list<std::pair<const std::string, Symbols>> libraries)
      : libraries_(libraries) {}

  std::shared_ptr<SharedLibrary> open(const std::vector<std::string>& names) const override {
    ++opened;
    for (const std::string& name : names)
      if (const auto found = libraries_.find(name); found != libraries_.end())
        return std::make_shared<Library>(found->second);
    return nullptr;
  }
  /// All libraries count as loaded, unless `all_loaded` is false.
  std::shared_ptr<SharedLibrary> loaded(const std::vector<std::string>& names) const override {
    return all_loaded ? open(names) : nullptr;
  }
  bool all_loaded = true;
  mutable int opened = 0;  ///< how often libraries were asked for

  Symbols& operator[](const std::string& name) { return libraries_[name]; }
  void remove(const std::string& name) { libraries_.erase(name); }

 private:
  class Library : public SharedLibrary {
   public:
    explicit Library(Symbols symbols) : symbols_(std::move(symbols)) {}
    void* symbol(const char* name) const override { return symbols_.find(name); }

   private:
    Symbols symbols_;
  };

  std::map<std::string, Symbols> libraries_;
};

}  // namespace capstan
