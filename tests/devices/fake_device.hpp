#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace capstan::fake {

constexpr int success = 0, invalid_value = 1, out_of_memory = 2, not_initialized = 3,
              invalid_context = 201, not_ready = 600, launch_failed = 719;

/// A machine with two devices, for drivers that tests load. Memory of a device is mapped twice: at
/// its address without access, and elsewhere for the devices' own copies. A copy is made at the
/// second query of its stream, so that code that does not wait gets nothing. Thread-safe.
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
  };
  std::byte* allocate(std::size_t size, int device, void* context, bool managed);
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
  int query(void* stream);

  /// Faults and counts; see fake_device.cpp.
  int knob(const std::string& name, int change);

 private:
  struct Copy {
    std::byte* to;
    const std::byte* from;
    std::size_t size;
  };
  struct Stream {
    void* context;
    int device;
    int queries = 0;
    std::vector<Copy> copies{};
  };
  const Allocation* found(const void* address);
  const std::byte* reachable(const void* address, std::size_t size);

  std::mutex mutex_;
  std::map<std::uintptr_t, Allocation> allocations_;
  std::map<std::uintptr_t, std::size_t> pinned_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::map<std::string, int> knobs_;
};

/// The devices of this library.
Devices& devices();

}  // namespace capstan::fake
