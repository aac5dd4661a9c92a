// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "capstan/error.hpp"
#include "core/platform/net/shared_library.hpp"

namespace capstan::verbs {
namespace {

constexpr const char* file = "libibverbs.so.1";

/// Finds the functions of a library that is there.
class Loader {
 public:
  explicit Loader(const SharedLibrary& library) : library_(library) {}

  template <class Function>
  void require(Function*& function, const char* name) const {
    library_.find(function, name);
    if (!function) throw SystemError(fmt::format("{} lacks {}; install a newer one", file, name));
  }
  template <class Function>
  void find(Function*& function, const char* name) const {
    library_.find(function, name);
  }

 private:
  const SharedLibrary& library_;
};

void find_devices(Library& library, const Loader& loader) {
  loader.require(library.fork_init, "ibv_fork_init");
  loader.require(library.get_device_list, "ibv_get_device_list");
  loader.require(library.free_device_list, "ibv_free_device_list");
  loader.require(library.get_device_name, "ibv_get_device_name");
  loader.require(library.open_device, "ibv_open_device");
  loader.require(library.close_device, "ibv_close_device");
  loader.require(library.query_device, "ibv_query_device");
  loader.require(library.query_port, "ibv_query_port");
  loader.require(library.query_gid_table, "_ibv_query_gid_table");
  loader.require(library.port_state_str, "ibv_port_state_str");
}

void find_memory(Library& library, const Loader& loader) {
  loader.require(library.alloc_pd, "ibv_alloc_pd");
  loader.require(library.dealloc_pd, "ibv_dealloc_pd");
  loader.require(library.reg_mr, "ibv_reg_mr");
  loader.find(library.reg_dmabuf_mr, "ibv_reg_dmabuf_mr");
  loader.require(library.dereg_mr, "ibv_dereg_mr");
}

void find_queues(Library& library, const Loader& loader) {
  loader.require(library.create_comp_channel, "ibv_create_comp_channel");
  loader.require(library.destroy_comp_channel, "ibv_destroy_comp_channel");
  loader.require(library.create_cq, "ibv_create_cq");
  loader.require(library.destroy_cq, "ibv_destroy_cq");
  loader.require(library.get_cq_event, "ibv_get_cq_event");
  loader.require(library.ack_cq_events, "ibv_ack_cq_events");
  loader.require(library.wc_status_str, "ibv_wc_status_str");
  loader.require(library.create_srq, "ibv_create_srq");
  loader.require(library.destroy_srq, "ibv_destroy_srq");
  loader.require(library.create_qp, "ibv_create_qp");
  loader.require(library.modify_qp, "ibv_modify_qp");
  loader.require(library.destroy_qp, "ibv_destroy_qp");
  loader.require(library.create_ah, "ibv_create_ah");
  loader.require(library.destroy_ah, "ibv_destroy_ah");
}

Library load() {
  const auto found = system_loader().open({file});
  if (!found)
    throw SystemError(fmt::format(
        "no RDMA device: {} cannot be loaded: {}; install libibverbs1 and ibverbs-providers", file,
        ::dlerror()));
  Library library{};
  const Loader loader{*found};
  find_devices(library, loader);
  find_memory(library, loader);
  find_queues(library, loader);
  return library;
}

}  // namespace

Library& library() {
  static auto& loaded = *new Library{load()};
  return loaded;
}

}  // namespace capstan::verbs
