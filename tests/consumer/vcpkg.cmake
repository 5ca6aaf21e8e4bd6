# cmake -DPORT_DIR=... -DPREFIX=... -DWORK_DIR=... -DOPTIONS=... -P vcpkg.cmake: runs a port's portfile as vcpkg does for its
# release build, into PREFIX. These functions replace vcpkg and its helper ports, which no package archive has,
# with the same arguments and the same layout of what they leave. What vcpkg itself does is not tested.
cmake_minimum_required(VERSION 3.25)
set(CURRENT_PACKAGES_DIR ${PREFIX})
cmake_path(GET PORT_DIR FILENAME PORT)

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
  run(${CMAKE_COMMAND} -G Ninja -S ${arg_SOURCE_PATH} -B ${WORK_DIR} -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_INSTALL_PREFIX=${PREFIX} -DBUILD_SHARED_LIBS=OFF ${arg_OPTIONS} ${OPTIONS})
endfunction()

function(vcpkg_cmake_install)
  run(${CMAKE_COMMAND} --build ${WORK_DIR} --target install)
endfunction()

function(vcpkg_copy_tools)
  cmake_parse_arguments(PARSE_ARGV 0 arg "AUTO_CLEAN" "" "TOOL_NAMES")
  foreach(name IN LISTS arg_TOOL_NAMES)
    file(COPY ${PREFIX}/bin/${name} DESTINATION ${PREFIX}/tools/${PORT})
    file(REMOVE ${PREFIX}/bin/${name})
  endforeach()
  file(REMOVE_RECURSE ${PREFIX}/bin)
endfunction()

# Package files go to share/PORT: two levels below the prefix, where vcpkg's toolchain finds them.
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "CONFIG_PATH" "")
  file(GLOB files ${PREFIX}/${arg_CONFIG_PATH}/*)
  file(COPY ${files} DESTINATION ${PREFIX}/share/${PORT})
  cmake_path(GET arg_CONFIG_PATH PARENT_PATH parent)
  file(REMOVE_RECURSE ${PREFIX}/${parent})
  foreach(name IN ITEMS config targets)
    set(file ${PREFIX}/share/${PORT}/${PORT}-${name}.cmake)
    file(READ ${file} text)
    string(REPLACE "/../../../" "/../../" text "${text}")
    set(up "get_filename_component(_IMPORT_PREFIX \"\${_IMPORT_PREFIX}\" PATH)\n")
    string(REPLACE "${up}${up}${up}" "${up}${up}" text "${text}")
    file(WRITE ${file} "${text}")
  endforeach()
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
  file(COPY_FILE ${arg_FILE_LIST} ${PREFIX}/share/${PORT}/copyright)
endfunction()

include(${PORT_DIR}/portfile.cmake)
