// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/platform/device/gpu_direct.hpp"
#include "core/platform/device/hardware_queues.hpp"

namespace capstan {

/// The device and context through which memory is accessed.
struct DevicePlace {
  void* context =
      nullptr;  ///< CUDA: the context that it belongs to; null: the device's primary one
  int device = 0;

  auto operator<=>(const DevicePlace&) const = default;
};

/// Names memory of a device to another process on the host. Both vendors' handles have this size.
struct DeviceMemoryHandle {
  std::array<std::byte, 64> bytes{};
};

/// The allocation that an address of a device belongs to.
struct DeviceAllocation {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  /// Other memory that takes the same addresses later has another one.
  std::uint64_t identity = 0;
};

/// All that Capstan asks of a vendor's library: CUDA's driver or HIP's runtime. Thread-safe. A
/// function that returns an int returns 0, or the library's error code; `not_supported` where this
/// version of the library lacks the function.
class DeviceDriver {
 public:
  enum class Direction { to_host, to_device };
  // Error codes of both vendors.
  static constexpr int not_ready = 600, not_supported = 801;
  static constexpr int relaxed_capture = 2;

  virtual ~DeviceDriver() = default;

  /// "CUDA", "HIP".
  virtual std::string_view name() const = 0;
  /// The kernels of this vendor that the library carries. Empty if the build has left them out.
  virtual std::vector<std::span<const std::byte>> images() const = 0;
  /// Functions that the library lacks and that copies do not need, by name.
  virtual const std::vector<std::string>& missing() const = 0;
  virtual std::string text_of(int code) const = 0;

  /// Programs do it themselves; tools that only look call it.
  virtual int initialize() = 0;

  // The machine. They fail with CUDA as long as nobody has initialised it.

  virtual int count(int& devices) const = 0;
  /// "0000:3b:00.0", as /sys/bus/pci/devices has it.
  virtual int pci_address(int device, std::string& address) const = 0;
  /// Whether kernels and copies of a device reach the memory of another one.
  virtual int can_access_peer(int device, int peer, bool& can) const = 0;
  /// Whether two devices have a link of their own, such as NVLink or xGMI, beside the bus.
  virtual int is_linked(int device, int peer, bool& linked) const = 0;

  /// The place of device memory. Nothing for memory that the host can access: ordinary, registered
  /// and managed memory.
  virtual std::optional<DevicePlace> place_of(const void* address) const = 0;
  /// The allocation that an address of device memory belongs to. Fails where the driver gives it no
  /// identity, as with ranges of virtual addresses.
  virtual int allocation_of(const void* address, DeviceAllocation& allocation) const = 0;
  /// The place of a stream of the program's.
  virtual int place_of_stream(void* stream, DevicePlace& place) = 0;
  /// Whether the stream is known to belong to this place; false where only place_of_stream() tells.
  virtual bool is_stream_of(const DevicePlace& /*place*/, void* /*stream*/) const { return false; }
  /// Whether what is put into the stream becomes part of a graph, which runs later and repeatedly.
  virtual int is_capturing(void* stream, bool& capturing) const = 0;

  /// Gives this thread another mode of capture, and returns the former one in `mode`. In
  /// `relaxed_capture` it may allocate and copy while a stream of the process is captured.
  virtual int exchange_capture_mode(int& mode) = 0;

  /// Makes a place current for this thread; leave() restores the former one.
  virtual int enter(const DevicePlace& place, int& former) = 0;
  virtual void leave(int former) = 0;

  // These use the current place. A stream waits for no other stream by itself.

  virtual int allocate(std::size_t bytes, void*& memory) = 0;
  /// The same for memory that other devices and the host access while kernels run.
  virtual int allocate_shared(std::size_t bytes, void*& memory) { return allocate(bytes, memory); }
  virtual int release(void* memory) = 0;
  /// Zeros, when the stream gets to it.
  virtual int set_zero(void* memory, std::size_t bytes, void* stream) = 0;
  /// From now on this place reaches the memory of `peer`.
  virtual int enable_peer(const DevicePlace& peer) = 0;

  /// A handle of memory of these two, by which another process on the host maps it.
  virtual int export_memory(void* memory, DeviceMemoryHandle& handle) = 0;
  virtual int open_memory(const DeviceMemoryHandle& handle, void*& memory) = 0;
  virtual int close_memory(void* memory) = 0;
  /// A file descriptor of whole pages of memory, by which network cards reach it.
  virtual int export_dma_buf(const void* address, std::size_t bytes, int& descriptor) = 0;

  /// Has kernels that begin from now on see what network cards have written to this place's memory.
  /// `not_supported` where nothing can.
  virtual int flush_remote_writes(int device) = 0;

  // Kernels, of images that the library carries (kernels/device/images.hpp).

  /// The number of multiprocessors. A device runs at least as many blocks at the same time.
  virtual int multiprocessors(int device, int& number) const = 0;
  /// Whether kernels of several processes run there at the same time. Otherwise they take turns, of
  /// a millisecond or so, also while they wait.
  virtual int processes_overlap(int device, bool& overlap) const = 0;
  /// The number of hardware queues that the streams of this process share on a device. A kernel
  /// holds up all that comes after it in its queue, of other streams, too.
  virtual HardwareQueues hardware_queues() const = 0;
  virtual int load_module(const void* image, void*& module) = 0;
  /// Fails where the module has no kernel of that name.
  virtual int find_kernel(void* module, const char* name, void*& kernel) = 0;
  /// `arguments`: the bytes of all parameters, as the kernel lays them out.
  virtual int launch(void* kernel, unsigned blocks, unsigned threads, const void* arguments,
                     std::size_t bytes, void* stream) = 0;

  virtual int make_stream(void*& stream) = 0;
  virtual int start_copy(Direction direction, void* to, const void* from, std::size_t bytes,
                         void* stream) = 0;
  /// `not_ready` while a copy is in progress on the stream.
  virtual int query(void* stream) = 0;
  /// The stream continues when the 32 bits of page-locked host memory at `flag` are `value` or
  /// more.
  virtual int wait_for_flag(void* stream, const std::uint32_t* flag, std::uint32_t value) = 0;

  /// Whether streams raise words of page-locked host memory.
  virtual bool raises_words() const = 0;
  /// Stores the value, when the stream gets to it, behind the copies before.
  virtual int raise_word(void* stream, std::uint32_t* word, std::uint32_t value) = 0;

  /// `timed`: elapsed() may be asked of it.
  virtual int make_event(void*& event, bool timed) = 0;
  virtual int release_event(void* event) = 0;
  /// The event comes when all that is in the stream now is done.
  virtual int record(void* event, void* stream) = 0;
  /// The stream continues when the event, as recorded last, has come.
  virtual int wait_for_event(void* stream, void* event) = 0;
  /// `not_ready` until the event, as recorded last, has come.
  virtual int query_event(void* event) = 0;
  /// The device's time from one event to another. Both are timed, of one context, and have come.
  virtual int elapsed(void* from, void* to, float& milliseconds) = 0;
};

/// A vendor's library, or the reason why it is not used.
struct FoundDriver {
  std::unique_ptr<DeviceDriver> driver{};  ///< null: there is an obstacle
  std::string obstacle{};                  ///< "libcuda.so.1 lacks cuStreamQuery"
};

/// CUDA's driver. Loads the driver if there is an NVIDIA device, since the CUDA runtime does so
/// only at its first call. Does not initialise it.
FoundDriver find_cuda_driver(const SystemView& system = {});
/// HIP's runtime, unless it is not loaded yet: the first call would initialise it.
FoundDriver find_hip_driver(const SystemView& system = {});

/// Collects the functions of a library, and the names of those that it lacks.
class DriverFunctions {
 public:
  explicit DriverFunctions(const SharedLibrary& library) : library_(library) {}

  /// A function without which the driver is of no use.
  template <class Function>
  DriverFunctions& need(Function*& function, const char* name) {
    library_.find(function, name);
    if (!function) lacked_ += (lacked_.empty() ? "" : ", ") + std::string{name};
    return *this;
  }
  /// A function that later versions have, by the first of these names that the library has.
  template <class Function, class... Names>
  DriverFunctions& want(Function*& function, const char* name, Names... older) {
    for (const char* one : {name, static_cast<const char*>(older)...})
      if (!function) library_.find(function, one);
    if (!function) missing_.emplace_back(name);
    return *this;
  }

  /// Names of the functions that are needed and absent: empty if the driver is usable.
  const std::string& lacked() const { return lacked_; }
  const std::vector<std::string>& missing() const { return missing_; }

 private:
  const SharedLibrary& library_;
  std::string lacked_;
  std::vector<std::string> missing_;
};

/// Calls a function that a driver may lack.
template <class Result, class... Parameters, class... Arguments>
int call_if_there(Result (*function)(Parameters...), Arguments... arguments) {
  return function ? function(arguments...) : DeviceDriver::not_supported;
}

}  // namespace capstan
