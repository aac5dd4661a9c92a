// SPDX-License-Identifier: Apache-2.0
#include "core/platform/device/device_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "capstan/error.hpp"
#include "core/platform/device/at_place.hpp"
#include "kernels/device/arguments.hpp"

namespace capstan {

using kernels::device::ReduceArguments;

DeviceKernels::DeviceKernels(const DeviceBuffer& where) : where_(where) {
  if (where_.driver->images().empty())
    throw SystemError(fmt::format(
        "this build of Capstan has no kernels for {}: its summary says which compiler is missing",
        where_.driver->name()));
  at_place(
      where_,
      "loading kernels (set CAPSTAN_CUDA_ARCHITECTURES or CAPSTAN_HIP_ARCHITECTURES to what the "
      "device is)",
      [&](DeviceDriver& driver) {
        for (const auto image : driver.images())
          if (const int error = driver.load_module(image.data(), modules_.emplace_back()))
            return error;
        return driver.multiprocessors(where_.place.device, multiprocessors_);
      });
}

DeviceKernels& DeviceKernels::at(const DeviceBuffer& where) {
  using Key = std::pair<DeviceDriver*, DevicePlace>;
  static std::mutex mutex;
  static auto& all = *new std::map<Key, std::unique_ptr<DeviceKernels>>;  // as drivers: for good
  const std::lock_guard lock{mutex};
  auto& found = all[{where.driver, where.place}];
  if (!found) found.reset(new DeviceKernels{where});
  return *found;
}

void* DeviceKernels::kernel(const std::string& name) {
  const std::lock_guard lock{mutex_};
  void*& found = kernels_[name];
  if (!found)
    at_place(where_, "finding a kernel", [&](DeviceDriver& driver) {
      int error = DeviceDriver::not_supported;
      for (void* const module : modules_)
        if (error != 0) error = driver.find_kernel(module, name.c_str(), found);
      return error;
    });
  return found;
}

void DeviceKernels::reduce(DataType type, ReduceOp op, const DeviceReduction& reduction,
                           void* stream) {
  if (!supports(type, op))
    throw InvalidArgument(fmt::format("{} is not defined for {}: choose another operation or type",
                                      name_of(op), name_of(type)));
  const auto sources = reduction.sources.size(), destinations = reduction.destinations.size();
  if (sources < 1 || sources > ReduceArguments::most_sources || destinations < 1 ||
      destinations > ReduceArguments::most_destinations)
    throw InvalidArgument(fmt::format(
        "a reduction on a device takes 1 to {} sources and 1 to {} destinations, not {} and {}",
        ReduceArguments::most_sources, ReduceArguments::most_destinations, sources, destinations));
  if (reduction.element_count == 0) return;
  ReduceArguments arguments{.element_count = reduction.element_count,
                            .source_count = static_cast<std::uint32_t>(sources),
                            .destination_count = static_cast<std::uint32_t>(destinations),
                            .divisor = reduction.divisor};
  std::ranges::copy(reduction.sources, arguments.sources);
  std::ranges::copy(reduction.destinations, arguments.destinations);
  void* const found = kernel(fmt::format("capstan_reduce_{}_{}", name_of(type), name_of(op)));
  const Bytes bytes = bytes_of(Elements{reduction.element_count}, size_of(type));
  at_place(where_, "starting a kernel", [&](DeviceDriver& driver) {
    return driver.launch(found, kernels::device::blocks_for(bytes.value(), multiprocessors_),
                         kernels::device::threads_of_block, &arguments, sizeof arguments, stream);
  });
}

void* DeviceKernels::program_kernel(DataType type, ReduceOp op) {
  return kernel(fmt::format("capstan_run_{}_{}", name_of(type), name_of(op)));
}

void DeviceKernels::run(void* program_kernel, const kernels::device::ProgramArguments& arguments,
                        unsigned lanes, void* stream) {
  at_place(where_, "starting a kernel", [&](DeviceDriver& driver) {
    return driver.launch(program_kernel, lanes, kernels::device::threads_of_lane, &arguments,
                         sizeof arguments, stream);
  });
}

}  // namespace capstan
