#pragma once

#include <string>
#include <vector>

#include "core/device/shared_library.hpp"

namespace capstan {

/// The network providers of libfabric that take memory of devices (FI_HMEM), each named once.
std::vector<std::string> hmem_providers(const SharedLibrary& libfabric);

/// The beginnings of libfabric's structures, which its ABI keeps as they are.
namespace libfabric_abi {

struct DomainAttributes {
  void* domain;
  char* name;
  int threading, control_progress, data_progress, resource_management, address_vector;
  int memory_registration_mode;
};

struct FabricAttributes {
  void* fabric;
  char* name;
  char* provider;
};

struct Info {
  Info* next;
  std::uint64_t capabilities;
  std::uint64_t mode;
  std::uint32_t address_format;
  std::size_t source_length, destination_length;
  void *source, *destination, *handle, *transmit, *receive, *endpoint;
  DomainAttributes* domain;
  FabricAttributes* fabric;
};

constexpr std::uint64_t hmem = std::uint64_t{1} << 47;
constexpr int mode_local = 1 << 2, mode_virtual_address = 1 << 4, mode_allocated = 1 << 5,
              mode_provider_key = 1 << 6, mode_endpoint = 1 << 9, mode_hmem = 1 << 10;
constexpr std::uint32_t api_version = 1 << 16 | 11;  ///< FI_VERSION(1, 11)

}  // namespace libfabric_abi
}  // namespace capstan
