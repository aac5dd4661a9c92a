// SPDX-License-Identifier: Apache-2.0
#pragma once

// The marks of functions that run on a device. In the emulation they are ordinary functions.
#if defined(__CUDACC__)
#define CAPSTAN_DEVICE __device__ __forceinline__
#define CAPSTAN_DEVICE_CALL __device__ __noinline__
#define CAPSTAN_UNROLL _Pragma("unroll")
#elif defined(__HIP__)
#define CAPSTAN_DEVICE __attribute__((device, always_inline)) inline
#define CAPSTAN_DEVICE_CALL __attribute__((device, noinline))
#define CAPSTAN_UNROLL _Pragma("unroll")
#else
#define CAPSTAN_DEVICE inline
#define CAPSTAN_DEVICE_CALL inline
#define CAPSTAN_UNROLL
#endif
