// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "capstan/backends/factory.hpp"
#include "core/extras/backends/factories.hpp"

namespace capstan {
namespace {

std::string lower(std::string_view name) {
  std::string text{name};
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  return text;
}

}  // namespace

BackendRegistry& BackendRegistry::instance() {
  static auto& registry = *[] {
    auto* made = new BackendRegistry;
    for (auto& factory : own_factories()) made->add(std::move(factory));
    return made;
  }();
  return registry;
}

void BackendRegistry::add(std::shared_ptr<const BackendFactory> factory) {
  if (!factory) throw InvalidArgument("BackendRegistry::add: the factory is null");
  std::string name = factory->name();
  if (name.empty() || name == "auto" || name != lower(name))
    throw InvalidArgument(
        fmt::format("a backend cannot be called '{}': choose a name in lower case", name));
  auto entry = std::make_shared<Entry>();
  entry->factory = std::move(factory);
  const std::lock_guard lock{mutex_};
  if (!entries_.emplace(name, std::move(entry)).second)
    throw InvalidArgument(
        fmt::format("there is a backend '{}' already: choose another name", name));
}

std::vector<std::shared_ptr<BackendRegistry::Entry>> BackendRegistry::by_priority() const {
  std::vector<std::shared_ptr<Entry>> all;
  {
    const std::lock_guard lock{mutex_};
    for (const auto& [name, entry] : entries_) all.push_back(entry);
  }
  std::ranges::stable_sort(all, std::ranges::greater{},
                           [](const auto& entry) { return entry->factory->priority(); });
  return all;
}

std::vector<std::string> BackendRegistry::names() const {
  std::vector<std::string> names;
  for (const auto& entry : by_priority()) names.push_back(entry->factory->name());
  return names;
}

std::shared_ptr<BackendRegistry::Entry> BackendRegistry::find(std::string_view name) const {
  {
    const std::lock_guard lock{mutex_};
    if (const auto found = entries_.find(lower(name)); found != entries_.end())
      return found->second;
  }
  throw InvalidArgument(fmt::format("unknown backend '{}': choose one of {}, or auto", name,
                                    fmt::join(names(), ", ")));
}

const Availability& BackendRegistry::look(Entry& entry) {
  std::call_once(entry.looked, [&] {
    try {
      entry.found = entry.factory->look();
    } catch (const std::exception& error) {
      entry.found = {false, error.what(), {}};
    } catch (...) {
      entry.found = {false, "its factory threw what is no std::exception", "mend the factory"};
    }
  });
  return entry.found;
}

Availability BackendRegistry::availability(std::string_view name) const {
  return look(*find(name));
}

int BackendRegistry::priority(std::string_view name) const {
  return find(name)->factory->priority();
}

std::shared_ptr<BackendRegistry::Entry> BackendRegistry::best() const {
  for (const auto& entry : by_priority())
    if (look(*entry).available) return entry;
  throw InvalidArgument("no backend is available: add one to the registry");
}

std::unique_ptr<Backend> BackendRegistry::create(std::string_view name,
                                                 const BackendConfig& config) const {
  const auto entry = lower(name) == "auto" ? best() : find(name);
  const Availability& found = look(*entry);
  if (found.available || config.options.contains("library")) return entry->factory->create(config);
  const std::string own = entry->factory->name();
  throw NotSupported(
      own, fmt::format("the backend '{}' is not available here: {}{}{}", own, found.reason,
                       found.remedy.empty() ? "" : ": ", found.remedy));
}

}  // namespace capstan
