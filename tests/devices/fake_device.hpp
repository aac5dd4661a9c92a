// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "kernels/device/arguments.hpp"
#include "kernels/device/program.hpp"
#include "tests/devices/fake_streams.hpp"

namespace capstan::fake {

constexpr int success = 0, invalid_value = 1, out_of_memory = 2, not_initialized = 3,
              invalid_context = 201, not_found = 500, not_ready = 600, launch_failed = 719;

/// Names memory of a device to other processes; as long as the drivers' handles.
struct IpcHandle {
  int process, descriptor;
  std::size_t size;
  int device;
  bool shared;
  std::byte unused[64 - 21];
};
static_assert(sizeof(IpcHandle) == 64);

/// A machine with two devices, for drivers that tests load. Memory of a device is mapped twice: at
/// its address without access, and elsewhere for the devices' own copies. Thread-safe.
class Devices {
 public:
  static constexpr int count = 2;

  struct Allocation {
    std::byte* address = nullptr;
    std::size_t size = 0;
    std::byte* data = nullptr;  ///< where it can be accessed
    int device = 0;
    void* context = nullptr;
    bool managed = false;  ///< accessible at its address, too
    /// Devices see each other's stores there while kernels run: they may have segments in it.
    bool shared = true;
    int memory = -1;           ///< the descriptor of its memfd
    std::uint64_t number = 0;  ///< that no other one has
  };
  std::byte* allocate(std::size_t size, int device, void* context, bool managed,
                      bool shared = true);
  /// Maps memory of another process, or of this one, once more.
  std::byte* open(const IpcHandle& handle);
  bool describe(const void* address, IpcHandle& handle);
  /// A new descriptor of the memory; -1 for none.
  int export_descriptor(const void* address);
  /// The attributes 7, 11 and 12 of both vendors: a number that no other allocation has, its first
  /// address, its size.
  int describe_allocation(const void* address, int attribute, void* value);
  void release(const void* address);
  /// The allocation that contains an address.
  std::optional<Allocation> find(const void* address);

  void* allocate_host(std::size_t size);
  void release_host(void* block);
  int add_host(const void* begin, std::size_t size);
  int remove_host(const void* begin);
  bool is_pinned(const void* begin, std::size_t size);

  /// A copy for the program: immediate, from and to any host memory.
  int copy_now(void* to, const void* from, std::size_t size);

  /// `context` and `device`: the place of the stream, where it has to be used.
  void* make_stream(void* context, int device);
  int start_copy(void* to, const void* from, std::size_t size, void* stream, void* context,
                 int device);
  int set(void* memory, int value, std::size_t size, void* stream);
  int query(void* stream);

  /// The number of multiprocessors that devices report.
  int multiprocessors();

  /// Puts a kernel of the emulation into a stream, or into the graph while streams are captured.
  /// Its operands have to be memory of devices.
  int launch(void* kernel, unsigned blocks, unsigned threads, const void* arguments,
             std::size_t bytes, void* stream);

  /// Puts what has been captured in a stream there again.
  void replay(Stream* stream);

  /// Faults and counts; see fake_device.cpp.
  int knob(const std::string& name, int change);
  /// Takes one off, if there is one: whether one more fault is wanted.
  bool take(const std::string& name);

 private:
  std::byte* map(Allocation made);
  const Allocation* found(const void* address);
  const std::byte* reachable(const void* address, std::size_t size);
  template <class T>
  bool map(T*& address);
  bool map_operands(kernels::device::ReduceArguments& arguments);
  bool map_operands(kernels::device::ProgramArguments& arguments,
                    std::vector<std::byte*>& segments);
  void put(Stream* stream, const Command& command);

  std::mutex mutex_;
  std::map<std::uintptr_t, Allocation> allocations_;
  std::map<std::uintptr_t, std::size_t> pinned_;
  std::map<std::string, int> knobs_;
  std::uint64_t numbers_ = 0;
  std::vector<std::pair<Stream*, Command>> captured_;
};

/// The devices of this library.
Devices& devices();

/// A kernel of the emulation, by the name that modules have for it; null if there is none.
void* kernel_named(const char* name);
/// The arguments out of a launch's list: names 1 (buffer) and 2 (size), each before its value.
struct LaunchArguments {
  explicit LaunchArguments(void** extra);
  const void* data = nullptr;
  std::size_t bytes = 0;
};

}  // namespace capstan::fake
