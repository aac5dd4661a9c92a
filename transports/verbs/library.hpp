// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

namespace capstan::verbs {

/// The functions that libibverbs exports and this transport calls; others are inline, and reached
/// through its objects.
///
/// libibverbs is loaded at run time rather than linked: programs start where it is not installed,
/// and one that brings its own uses that one here, too.
struct Library {
  decltype(&::ibv_fork_init) fork_init;
  decltype(&::ibv_get_device_list) get_device_list;
  decltype(&::ibv_free_device_list) free_device_list;
  decltype(&::ibv_get_device_name) get_device_name;
  decltype(&::ibv_open_device) open_device;
  decltype(&::ibv_close_device) close_device;
  decltype(&::ibv_query_device) query_device;
  decltype(&::ibv_query_port) query_port;
  decltype(&::_ibv_query_gid_table) query_gid_table;
  decltype(&::ibv_port_state_str) port_state_str;
  decltype(&::ibv_alloc_pd) alloc_pd;
  decltype(&::ibv_dealloc_pd) dealloc_pd;
  decltype(&::ibv_reg_mr) reg_mr;
  decltype(&::ibv_reg_dmabuf_mr) reg_dmabuf_mr;  ///< null before rdma-core 34
  decltype(&::ibv_dereg_mr) dereg_mr;
  decltype(&::ibv_create_comp_channel) create_comp_channel;
  decltype(&::ibv_destroy_comp_channel) destroy_comp_channel;
  decltype(&::ibv_create_cq) create_cq;
  decltype(&::ibv_destroy_cq) destroy_cq;
  decltype(&::ibv_get_cq_event) get_cq_event;
  decltype(&::ibv_ack_cq_events) ack_cq_events;
  decltype(&::ibv_wc_status_str) wc_status_str;
  decltype(&::ibv_create_srq) create_srq;
  decltype(&::ibv_destroy_srq) destroy_srq;
  decltype(&::ibv_create_qp) create_qp;
  decltype(&::ibv_modify_qp) modify_qp;
  decltype(&::ibv_destroy_qp) destroy_qp;
  decltype(&::ibv_create_ah) create_ah;
  decltype(&::ibv_destroy_ah) destroy_ah;
};

/// Loads libibverbs at the first call, for good. Throws SystemError when it cannot be loaded, or
/// lacks a function. Tests replace functions in it, before they use any.
Library& library();

}  // namespace capstan::verbs
