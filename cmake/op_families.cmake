# src/ops/ops.def is the only list of op families: each line OP(name) needs a description, a CPU kernel
# and a CUDA kernel of that name, each a file name.cpp (or .cu) or a folder name/ with sources.

# Stops the configuration if a family in ops.def lacks its source under `folder`.
function(demi_require_op_source family folder)
  set(stem ${PROJECT_SOURCE_DIR}/${folder}/${family})
  file(GLOB sources CONFIGURE_DEPENDS ${stem}.cpp ${stem}.cu ${stem}/*.cpp ${stem}/*.cu)
  if(NOT sources)
    message(FATAL_ERROR "OP(${family}) stands in src/ops/ops.def, but neither a source "
      "${folder}/${family} nor one in ${folder}/${family}/ exists.")
  endif()
endfunction()

function(demi_check_op_families)
  set(list ${PROJECT_SOURCE_DIR}/src/ops/ops.def)
  if(NOT EXISTS ${list})
    return()
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  file(STRINGS ${list} lines REGEX "^OP\\(")
  foreach(line IN LISTS lines)
    if(NOT line MATCHES "^OP\\(([a-z0-9_]+)\\)")
      message(FATAL_ERROR "src/ops/ops.def: expected a line OP(family). Received: ${line}")
    endif()
    demi_require_op_source(${CMAKE_MATCH_1} src/ops)
    demi_require_op_source(${CMAKE_MATCH_1} kernels/cpu)
    demi_require_op_source(${CMAKE_MATCH_1} kernels/cuda)
  endforeach()
endfunction()
