// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/launchers/launcher_kvs.hpp"

#include "core/bootstrap/launchers/pmi.hpp"
#include "core/bootstrap/launchers/pmix.hpp"

namespace capstan {
namespace {

class PmixKvs final : public LauncherKvs {
 public:
  void put(const std::string& key, const std::string& text, Deadline) override {
    pmix::put(key, text);
  }
  std::string get(const std::string& key, Deadline deadline) override {
    return pmix::get(0, key, deadline);
  }
  void leave(Deadline deadline) override { pmix::meet(deadline); }
};

class PmiKvs final : public LauncherKvs {
 public:
  explicit PmiKvs(const pmi::Access& access) : access_(access) {}

  void put(const std::string& key, const std::string& text, Deadline deadline) override {
    pmi::leave(access_, key, std::string_view{text}.substr(0, pmi::longest_text), deadline);
  }
  std::string get(const std::string& key, Deadline deadline) override {
    return pmi::get(access_, key, deadline);
  }
  void leave(Deadline) override {}  // the launcher keeps values as long as the job

 private:
  pmi::Access access_;
};

}  // namespace

std::unique_ptr<LauncherKvs> launcher_kvs(Method method, const Launch& launch) {
  if (method == Method::pmix) return std::make_unique<PmixKvs>();
  return std::make_unique<PmiKvs>(launch.pmi.value());
}

}  // namespace capstan
