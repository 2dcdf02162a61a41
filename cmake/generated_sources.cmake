# DEMI_GENERATED_SOURCES: what the build writes itself, under DEMI_GENERATED_DIR, which mirrors the tree.
set(DEMI_GENERATED_DIR ${PROJECT_BINARY_DIR}/generated)

# The messages of TensorBoard's event files: src/io/event.pb.h.
set(event_proto ${PROJECT_SOURCE_DIR}/src/io/event.proto)
set(event_source ${DEMI_GENERATED_DIR}/src/io/event.pb.cc)
file(MAKE_DIRECTORY ${DEMI_GENERATED_DIR}/src/io)
add_custom_command(
  OUTPUT ${event_source} ${DEMI_GENERATED_DIR}/src/io/event.pb.h
  COMMAND protobuf::protoc --proto_path ${PROJECT_SOURCE_DIR} --cpp_out ${DEMI_GENERATED_DIR} ${event_proto}
  DEPENDS ${event_proto} VERBATIM)
set_source_files_properties(${event_source} PROPERTIES COMPILE_OPTIONS "-w")
set(DEMI_GENERATED_SOURCES ${event_source})

# Version and commit: src/core/revision.h, looked at in every build and written when they change.
file(MAKE_DIRECTORY ${DEMI_GENERATED_DIR}/src/core)
add_custom_target(demi_revision
  COMMAND ${CMAKE_COMMAND} -D SOURCE_DIR=${PROJECT_SOURCE_DIR} -D VERSION=${PROJECT_VERSION}
    -D OUTPUT=${DEMI_GENERATED_DIR}/src/core/revision.h -P ${PROJECT_SOURCE_DIR}/cmake/write_revision.cmake
  BYPRODUCTS ${DEMI_GENERATED_DIR}/src/core/revision.h VERBATIM)
