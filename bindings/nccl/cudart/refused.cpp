// SPDX-License-Identifier: Apache-2.0

// Functions that a host cannot offer: kernels, graphs, memory of other processes. Their names
// exist, as programs that contain kernels would not start without them. The header is not included
// here: arguments do not matter.

namespace capstan::cudart {
int refuse();
}

#define CAPSTAN_CUDART_REFUSED(name)                             \
  extern "C" __attribute__((visibility("default"))) int name() { \
    return capstan::cudart::refuse();                            \
  }

CAPSTAN_CUDART_REFUSED(cudaLaunchKernel)
CAPSTAN_CUDART_REFUSED(cudaLaunchKernelExC)
CAPSTAN_CUDART_REFUSED(cudaLaunchCooperativeKernel)
CAPSTAN_CUDART_REFUSED(cudaFuncGetAttributes)
CAPSTAN_CUDART_REFUSED(cudaFuncSetAttribute)
CAPSTAN_CUDART_REFUSED(cudaOccupancyMaxActiveBlocksPerMultiprocessor)
CAPSTAN_CUDART_REFUSED(cudaMemcpyToSymbol)
CAPSTAN_CUDART_REFUSED(cudaMemcpyFromSymbol)
CAPSTAN_CUDART_REFUSED(cudaGetSymbolAddress)
CAPSTAN_CUDART_REFUSED(cudaStreamEndCapture)
CAPSTAN_CUDART_REFUSED(cudaGraphInstantiate)
CAPSTAN_CUDART_REFUSED(cudaGraphLaunch)
CAPSTAN_CUDART_REFUSED(cudaGraphDestroy)
CAPSTAN_CUDART_REFUSED(cudaGraphExecDestroy)
CAPSTAN_CUDART_REFUSED(cudaIpcGetMemHandle)
CAPSTAN_CUDART_REFUSED(cudaIpcOpenMemHandle)
CAPSTAN_CUDART_REFUSED(cudaIpcCloseMemHandle)
CAPSTAN_CUDART_REFUSED(cudaIpcGetEventHandle)
CAPSTAN_CUDART_REFUSED(cudaIpcOpenEventHandle)
CAPSTAN_CUDART_REFUSED(cudaGetDriverEntryPoint)
CAPSTAN_CUDART_REFUSED(cudaGetDriverEntryPointByVersion)
CAPSTAN_CUDART_REFUSED(__cudaLaunchKernel)
CAPSTAN_CUDART_REFUSED(__cudaLaunchKernel_ptsz)
CAPSTAN_CUDART_REFUSED(__cudaGetKernel)
CAPSTAN_CUDART_REFUSED(__cudaPushCallConfiguration)
CAPSTAN_CUDART_REFUSED(__cudaPopCallConfiguration)

// Functions that CUDA's compiler makes a program with kernels call when it starts and ends.
#define CAPSTAN_CUDART_IGNORED(name) \
  extern "C" __attribute__((visibility("default"))) void name() {}

extern "C" __attribute__((visibility("default"))) void** __cudaRegisterFatBinary() {
  static void* handle = nullptr;
  return &handle;
}
extern "C" __attribute__((visibility("default"))) char __cudaInitModule() {
  return 1;
}
CAPSTAN_CUDART_IGNORED(__cudaRegisterFatBinaryEnd)
CAPSTAN_CUDART_IGNORED(__cudaUnregisterFatBinary)
CAPSTAN_CUDART_IGNORED(__cudaRegisterFunction)
CAPSTAN_CUDART_IGNORED(__cudaRegisterVar)
CAPSTAN_CUDART_IGNORED(__cudaRegisterHostVar)
CAPSTAN_CUDART_IGNORED(__cudaRegisterManagedVar)
