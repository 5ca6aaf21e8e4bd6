# vcpkg overlay port of the checkout that it lies in: vcpkg install weft --overlay-ports=tools/packaging/vcpkg
# Tested: this file, run by the functions of tests/consumer/vcpkg.cmake in place of vcpkg's, with Debian's libraries, and a
# program that uses what it leaves. Not tested: vcpkg itself and the libraries' versions that it brings. Eigen must be a 3.4.
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH SOURCE_PATH)
foreach(level IN ITEMS packaging tools checkout)
  cmake_path(GET SOURCE_PATH PARENT_PATH SOURCE_PATH)
endforeach()

vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -DWEFT_TESTS=OFF -DWEFT_EXAMPLES=OFF -DWEFT_BENCH=OFF)
vcpkg_cmake_install()
vcpkg_copy_tools(TOOL_NAMES weft_run AUTO_CLEAN)
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/weft)
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
