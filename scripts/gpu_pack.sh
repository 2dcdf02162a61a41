#!/usr/bin/env bash
# Packs what demi needs to build and test on a GPU machine without network or package manager into one
# folder: headers of fmt, nlohmann_json and CLI11, zlib, Protocol Buffers, GoogleTest's sources,
# Fashion-MNIST. The folder serves as CMAKE_PREFIX_PATH; scripts/gpu_check.sh looks for it.
# Usage: scripts/gpu_pack.sh [FOLDER]      default: build/gpu_pack
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${1:-build/gpu_pack}
data=/usr/share/datasets/fashion-mnist
scripts/setup_debian.sh dataset-fashion-mnist
staging=$(mktemp -d "$(dirname "$(realpath -m "$folder")").XXXXXX")
trap 'rm -rf "$staging"' EXIT

mkdir -p "$staging"/{bin,include/google,lib/cmake,src,data}
cp -r /usr/include/{fmt,nlohmann,CLI,zlib.h,gtest,gmock} "$staging/include/"
find /usr/include -name zconf.h -exec cp {} "$staging/include/" \;
cp "$(gcc -print-file-name=libz.a)" "$staging/lib/"
cp -r /usr/include/google/protobuf "$staging/include/google/"
cp "$(gcc -print-file-name=libprotobuf.a)" "$(gcc -print-file-name=libprotobuf-lite.a)" "$staging/lib/"
# The compiler of messages, with the libraries that it is linked to.
cp "$(command -v protoc)" "$staging/bin/protoc.bin"
for library in libprotoc libprotobuf libz; do
  cp -L "$(ldd "$(command -v protoc)" | awk -v name="$library" '$1 ~ "^" name "\\." { print $3 }')" "$staging/lib/"
done
cat > "$staging/bin/protoc" << 'END'
#!/bin/sh
here=$(dirname "$0")
LD_LIBRARY_PATH=$here/../lib exec "$here/protoc.bin" "$@"
END
chmod 755 "$staging/bin/protoc"
cp -r /usr/src/googletest "$staging/src/"
cp "$data"/*.gz "$staging/data/"

# package NAME DEBIAN_PACKAGE: the CMake package file of a packed library, read from stdin, with the version
# of the Debian package it comes from.
package() {
  mkdir -p "$staging/lib/cmake/$1"
  cat > "$staging/lib/cmake/$1/$1Config.cmake"
  local version
  version=$(dpkg-query -W -f='${Version}' "$2" | sed -E 's/^([0-9]+:)?([0-9.]+).*/\2/')
  cat > "$staging/lib/cmake/$1/$1ConfigVersion.cmake" << END
set(PACKAGE_VERSION $version)
if(NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
END
}
prefix='get_filename_component(prefix ${CMAKE_CURRENT_LIST_DIR}/../../.. ABSOLUTE)'
package fmt libfmt-dev << END
$prefix
add_library(fmt::fmt INTERFACE IMPORTED)
target_include_directories(fmt::fmt INTERFACE \${prefix}/include)
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)
END
for names in nlohmann_json:nlohmann-json3-dev CLI11:libcli11-dev; do
  name=${names%%:*}
  package "$name" "${names#*:}" << END
$prefix
add_library($name::$name INTERFACE IMPORTED)
target_include_directories($name::$name INTERFACE \${prefix}/include)
END
done
package GTest libgtest-dev << END
$prefix
set(INSTALL_GTEST OFF)
add_subdirectory(\${prefix}/src/googletest \${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
foreach(library gtest gtest_main gmock gmock_main)
  target_compile_options(\${library} PRIVATE -w)
  if(NOT TARGET GTest::\${library})
    add_library(GTest::\${library} ALIAS \${library})
  endif()
endforeach()
END

rm -rf "$folder"
mkdir -p "$(dirname "$folder")"
mv "$staging" "$folder"
chmod 755 "$folder"
trap - EXIT
echo "packed $(du -sh "$folder" | cut -f1) into $folder"
