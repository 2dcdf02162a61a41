# Finds cuDNN 9 or newer, which ships no CMake package.
#
# Looked in: CUDNN_ROOT (variable or environment), the CUDA toolkit, the system, and the folder
# nvidia/cudnn that the Python packages nvidia-cudnn-cu* install.
#
# Defines CUDNN_FOUND, CUDNN_VERSION, CUDNN_INCLUDE_DIR, CUDNN_LIBRARY and the target CUDNN::cudnn.
# With the component "headers" the library need not exist: CUDNN::headers is then all there is.
include(FindPackageHandleStandardArgs)

find_package(CUDAToolkit QUIET)

# Python's packages, without running Python: site-packages of the active environment and the usual
# places.
set(_cudnn_python_patterns
  $ENV{VIRTUAL_ENV}/lib/python3*/site-packages/nvidia/cudnn
  $ENV{CONDA_PREFIX}/lib/python3*/site-packages/nvidia/cudnn
  $ENV{HOME}/.local/lib/python3*/site-packages/nvidia/cudnn
  /usr/local/lib/python3*/dist-packages/nvidia/cudnn
  /usr/local/lib/python3*/site-packages/nvidia/cudnn)
file(GLOB _cudnn_python ${_cudnn_python_patterns})

set(_cudnn_hints ${CUDAToolkit_LIBRARY_ROOT} ${CUDAToolkit_TARGET_DIR} ${_cudnn_python})
find_path(CUDNN_INCLUDE_DIR cudnn_version.h
  HINTS ${_cudnn_hints} ${CUDAToolkit_INCLUDE_DIRS}
  PATH_SUFFIXES include include/x86_64-linux-gnu include/aarch64-linux-gnu)
# A run-time installation has no unversioned name.
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 NAMES_PER_DIR
  HINTS ${_cudnn_hints} ${CUDAToolkit_LIBRARY_DIR}
  PATH_SUFFIXES lib64 lib lib/x64)
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY)

unset(CUDNN_VERSION)
if(CUDNN_INCLUDE_DIR)
  # cudnn_version.h may only include the file that has the numbers.
  file(GLOB _cudnn_version_files ${CUDNN_INCLUDE_DIR}/cudnn_version*.h)
  set(_cudnn_numbers "")
  foreach(part MAJOR MINOR PATCHLEVEL)
    foreach(version_file IN LISTS _cudnn_version_files)
      file(STRINGS ${version_file} line REGEX "^#define CUDNN_${part} +[0-9]+")
      if(line MATCHES "CUDNN_${part} +([0-9]+)")
        list(APPEND _cudnn_numbers ${CMAKE_MATCH_1})
        break()
      endif()
    endforeach()
  endforeach()
  list(JOIN _cudnn_numbers "." CUDNN_VERSION)
endif()

set(_cudnn_required CUDNN_LIBRARY CUDNN_INCLUDE_DIR)
if(CUDNN_FIND_COMPONENTS STREQUAL "headers")
  set(_cudnn_required CUDNN_INCLUDE_DIR)
  set(CUDNN_headers_FOUND TRUE)
endif()
if(NOT CUDNN_FIND_VERSION)
  set(CUDNN_FIND_VERSION 9)
endif()
find_package_handle_standard_args(CUDNN
  REQUIRED_VARS ${_cudnn_required} VERSION_VAR CUDNN_VERSION HANDLE_COMPONENTS)

if(CUDNN_FOUND AND NOT TARGET CUDNN::headers)
  add_library(CUDNN::headers INTERFACE IMPORTED)
  target_include_directories(CUDNN::headers INTERFACE ${CUDNN_INCLUDE_DIR})
endif()
if(CUDNN_FOUND AND CUDNN_LIBRARY AND NOT TARGET CUDNN::cudnn)
  add_library(CUDNN::cudnn UNKNOWN IMPORTED)
  set_target_properties(CUDNN::cudnn PROPERTIES
    IMPORTED_LOCATION ${CUDNN_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${CUDNN_INCLUDE_DIR})
endif()
