# Writes the version and the git commit of SOURCE_DIR to the header OUTPUT, if they have changed.
# Usage: cmake -D SOURCE_DIR=… -D OUTPUT=… -D VERSION=… -P write_revision.cmake
set(revision "")
find_program(GIT_PROGRAM git)
if(GIT_PROGRAM AND EXISTS ${SOURCE_DIR}/.git)
  execute_process(COMMAND ${GIT_PROGRAM} describe --always --dirty --abbrev=40 --exclude=*
    WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE revision OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
set(text "#define DEMI_VERSION \"${VERSION}\"\n#define DEMI_GIT_REVISION \"${revision}\"\n")
set(before "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT text STREQUAL before)
  file(WRITE ${OUTPUT} "${text}")
endif()
