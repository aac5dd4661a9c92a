// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace capstan::test {

/// Allocations of this thread by operator new. A program that asks has counted_allocations.cpp
/// among its sources. Always 0 with sanitizers, which have an operator new of their own.
std::uint64_t allocations();

/// Whether operator new fails on this thread.
bool& memory_is_out();

}  // namespace capstan::test
