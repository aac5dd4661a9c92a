// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

namespace capstan::perf {

/// The work of a program while a call is under way.
enum class Beside : std::uint8_t {
  nothing,
  computing,  ///< between start and wait
  helped,     ///< the same, beside the progress thread
  sleeping    ///< as if it waited for a device, so that its core is free
};

/// A computation of about a given length: arithmetic on registers, which needs a core and no
/// memory. It is counted in steps, so that another thread on the core makes it longer.
class Computation {
 public:
  Computation(Beside beside, double steps_in_second, double seconds)
      : sleeps_(beside == Beside::sleeping),
        seconds_(seconds),
        steps_(static_cast<std::uint64_t>(steps_in_second * seconds)) {}

  void run() const {
    if (sleeps_)
      std::this_thread::sleep_for(seconds_);
    else
      compute(steps_);
  }

  /// Steps in a second of this core.
  static double speed() {
    constexpr std::uint64_t trial = 200'000;
    const auto start = std::chrono::steady_clock::now();
    compute(trial);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    return trial / took.count();
  }

 private:
  static double compute(std::uint64_t steps) {
    double x = 1.0;
    for (std::uint64_t i = 0; i < steps; ++i) {
      x = x * 1.0000001 + 1e-9;
      asm volatile("" : "+x"(x));
    }
    return x;
  }

  const bool sleeps_;
  const std::chrono::duration<double> seconds_;
  const std::uint64_t steps_;
};

}  // namespace capstan::perf
