# The sources of the CUDA backend, for the plugin (nvcc) and for the emulator of the tests (a C++
# compiler): DEMI_CUDA_KERNELS (.cu) and DEMI_CUDA_HOST_SOURCES (.cpp), with the device profiles as a
# generated source.
set(cuda_folder ${PROJECT_SOURCE_DIR}/kernels/cuda)
file(GLOB_RECURSE DEMI_CUDA_KERNELS CONFIGURE_DEPENDS ${cuda_folder}/*.cu)
file(GLOB_RECURSE DEMI_CUDA_HOST_SOURCES CONFIGURE_DEPENDS ${cuda_folder}/*.cpp)

file(GLOB profiles CONFIGURE_DEPENDS ${cuda_folder}/profiles/*.json)
set(text "#include \"kernels/cuda/profiles.h\"\n\nnamespace demi::cuda {\n\nconst std::vector<Profile>& profiles() {\n  static const std::vector<Profile> list = {\n")
foreach(profile IN LISTS profiles)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${profile})
  get_filename_component(name ${profile} NAME_WE)
  file(READ ${profile} json)
  string(STRIP "${json}" json)
  string(APPEND text "      {\"${name}\", R\"json(${json})json\"},\n")
endforeach()
string(APPEND text "  };\n  return list;\n}\n\n}  // namespace demi::cuda\n")
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/kernels/cuda/profiles.cpp CONTENT "${text}" @ONLY)
list(APPEND DEMI_CUDA_HOST_SOURCES ${PROJECT_BINARY_DIR}/kernels/cuda/profiles.cpp)
