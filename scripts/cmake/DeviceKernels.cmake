# SPDX-License-Identifier: Apache-2.0

# The kernels of devices, as one image for each vendor, which the library carries and gives to the
# vendor's driver at run time. So it links neither CUDA nor HIP, and needs no file beside it.
# A developer's build has one machine's; a release, whose driver compiles PTX for all later ones, those of all.
option(CAPSTAN_RELEASE_KERNELS "Build kernels for all architectures" OFF)
if(CAPSTAN_RELEASE_KERNELS)
  set(_cuda_architectures 80 90 100 120 90-virtual)
  set(_hip_architectures gfx90a gfx942 gfx1100)
else()
  set(_cuda_architectures 90)
  set(_hip_architectures gfx90a)
endif()
set(CAPSTAN_CUDA_ARCHITECTURES "" CACHE STRING "CUDA's architectures, 80;90-virtual (PTX): instead of the build's own")
set(CAPSTAN_HIP_ARCHITECTURES "" CACHE STRING "AMD's architectures, gfx90a;gfx1100: instead of the build's own")
if(CAPSTAN_CUDA_ARCHITECTURES)
  set(_cuda_architectures ${CAPSTAN_CUDA_ARCHITECTURES})
endif()
if(CAPSTAN_HIP_ARCHITECTURES)
  set(_hip_architectures ${CAPSTAN_HIP_ARCHITECTURES})
endif()
option(CAPSTAN_DEVICE_KERNELS "Build kernels for devices where their compilers are found" ON)
find_program(CAPSTAN_NVCC nvcc PATHS /usr/local/cuda/bin)
find_program(CAPSTAN_HIP_CLANG NAMES amdclang++ clang++-19 clang++ PATHS /opt/rocm/llvm/bin)
mark_as_advanced(CAPSTAN_NVCC CAPSTAN_HIP_CLANG)

# capstan_device_image(VENDOR IMAGE...): the library carries these files.
function(capstan_device_image vendor)
  string(TOUPPER ${vendor} name)
  add_custom_target(capstan_${vendor}_kernels DEPENDS ${ARGN})
  # Ninja knows from images.cpp alone what has to wait for them: all other sources need not.
  if(NOT CMAKE_GENERATOR MATCHES "Ninja")
    add_dependencies(capstan_platform capstan_${vendor}_kernels)
  endif()
  set(embedded "")
  foreach(image ${ARGN})
    get_filename_component(stem ${image} NAME_WE)
    string(APPEND embedded "IMAGE(${stem}, \"${image}\")\n")
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${vendor}_images.inc CONTENT "${embedded}" @ONLY)
  set_property(SOURCE device/images.cpp TARGET_DIRECTORY capstan APPEND PROPERTY OBJECT_DEPENDS ${ARGN})
  set_property(SOURCE device/images.cpp TARGET_DIRECTORY capstan APPEND PROPERTY
               COMPILE_DEFINITIONS CAPSTAN_${name}_IMAGES="${CMAKE_CURRENT_BINARY_DIR}/${vendor}_images.inc")
endfunction()

function(capstan_cuda_kernels)
  set(codes "")
  foreach(architecture ${_cuda_architectures})
    if(architecture MATCHES "^(.+)-virtual$")
      list(APPEND codes -gencode arch=compute_${CMAKE_MATCH_1},code=compute_${CMAKE_MATCH_1})
    else()
      list(APPEND codes -gencode arch=compute_${architecture},code=sm_${architecture})
    endif()
  endforeach()
  set(images "")
  foreach(left_out INTEGERS FLOATS) # two files, so that they are compiled side by side
    set(image ${CMAKE_CURRENT_BINARY_DIR}/cuda_without_${left_out}.fatbin)
    set(kept ${CMAKE_CURRENT_BINARY_DIR}/cuda_kept/${left_out}) # for tests/devices/machine_code
    add_custom_command(
      OUTPUT ${image}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${kept}
      COMMAND sh -c "\"$@\" 2> ${kept}/ptxas.usage || { cat ${kept}/ptxas.usage >&2; exit 1; }" sh
              ${CAPSTAN_NVCC} -fatbin -Xptxas -v --keep --keep-dir ${kept} ${codes} --compress-mode=size -std=c++20 -O3 -fmad=false
              --expt-relaxed-constexpr -DCAPSTAN_WITHOUT_${left_out} -I${PROJECT_SOURCE_DIR}
              -I${PROJECT_SOURCE_DIR}/core/include -MD -MF ${image}.d -MT ${image}
              ${CMAKE_CURRENT_SOURCE_DIR}/cuda/kernels.cu -o ${image}
      DEPFILE ${image}.d DEPENDS cuda/kernels.cu VERBATIM
      COMMENT "Compiling kernels for CUDA, without ${left_out}")
    list(APPEND images ${image})
  endforeach()
  capstan_device_image(cuda ${images})
endfunction()

function(capstan_hip_kernels)
  set(codes "")
  foreach(architecture ${_hip_architectures})
    list(APPEND codes --offload-arch=${architecture})
  endforeach()
  set(image ${CMAKE_CURRENT_BINARY_DIR}/hip.hipfb)
  add_custom_command(
    OUTPUT ${image}
    COMMAND ${CAPSTAN_HIP_CLANG} -x hip --cuda-device-only ${codes} --offload-compress -nogpulib -nogpuinc
            -std=c++20 -O3 -ffp-contract=off -fno-strict-aliasing -I${PROJECT_SOURCE_DIR}
            -I${PROJECT_SOURCE_DIR}/core/include -MD -MF ${image}.d -MT ${image}
            ${CMAKE_CURRENT_SOURCE_DIR}/hip/kernels.hip -o ${image}
    DEPFILE ${image}.d DEPENDS hip/kernels.hip VERBATIM COMMENT "Compiling kernels for HIP")
  capstan_device_image(hip ${image})
endfunction()

# capstan_compiles(RESULT VENDOR COMMAND...): whether a compiler takes what kernels are made of.
function(capstan_compiles result vendor)
  if(NOT DEFINED ${result})
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/probe.cpp "#include \"kernels/${vendor}/machine.hpp\"\n")
    execute_process(COMMAND ${ARGN} -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/core/include
                            ${CMAKE_CURRENT_BINARY_DIR}/probe.cpp -o ${CMAKE_CURRENT_BINARY_DIR}/probe.out
                    RESULT_VARIABLE code OUTPUT_QUIET ERROR_QUIET)
    if(code EQUAL 0)
      set(${result} ON CACHE INTERNAL "")
    else()
      set(${result} OFF CACHE INTERNAL "")
    endif()
  endif()
endfunction()

target_sources(capstan_platform PRIVATE device/images.cpp)
set_source_files_properties(device/images.cpp TARGET_DIRECTORY capstan PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
# Tests compile a kernel for each device, whether images are built or not.
if((CAPSTAN_DEVICE_KERNELS OR CAPSTAN_BUILD_TESTS) AND NOT CAPSTAN_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  if(CAPSTAN_NVCC)
    list(GET _cuda_architectures 0 _first)
    capstan_compiles(CAPSTAN_HAS_NVCC cuda ${CAPSTAN_NVCC} -cubin -x cu -std=c++20 --expt-relaxed-constexpr
                     -arch=sm_${_first} --compress-mode=size)
  endif()
  if(CAPSTAN_HIP_CLANG)
    list(GET _hip_architectures 0 _first)
    capstan_compiles(CAPSTAN_HAS_HIP hip ${CAPSTAN_HIP_CLANG} -x hip --cuda-device-only --offload-compress
                     -nogpulib -nogpuinc -std=c++20 --offload-arch=${_first})
  endif()
endif()
set(_cuda "left out: -D CAPSTAN_DEVICE_KERNELS=ON, without sanitizers, for this machine")
set(_hip "${_cuda}")
if(CAPSTAN_DEVICE_KERNELS AND NOT CAPSTAN_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  set(_cuda "left out, no nvcc that takes C++20: reductions on NVIDIA's devices")
  set(_hip "left out, no clang for AMD's devices: reductions there; apt-get install clang-19 lld-19")
  if(CAPSTAN_HAS_NVCC)
    set(_cuda "${CAPSTAN_NVCC}: ${_cuda_architectures}")
    capstan_cuda_kernels()
    set_property(GLOBAL PROPERTY CAPSTAN_HAS_CUDA_KERNELS ON)
  endif()
  if(CAPSTAN_HAS_HIP)
    set(_hip "${CAPSTAN_HIP_CLANG}: ${_hip_architectures}")
    capstan_hip_kernels()
  endif()
endif()
set_property(GLOBAL PROPERTY CAPSTAN_KERNELS "CUDA kernels ${_cuda}" "HIP kernels  ${_hip}")
