# Install and export: find_package(weft) works from an install tree and, with weft_DIR, from the build tree.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/weft)

if(WEFT_RUNTIME_ONLY)
  install(TARGETS weft_runtime weft_runtime_eigen weft_run weft_run_eigen EXPORT weft)
  # What base/ and runtime/ define.
  foreach(header IN ITEMS cache.hpp dim.hpp dtype.hpp dtypes.def error.hpp memory.hpp version.hpp)
    install(FILES ${PROJECT_SOURCE_DIR}/include/weft/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weft)
  endforeach()
else()
  install(TARGETS weft weft_runtime weft_runtime_eigen weft_run weft_run_eigen EXPORT weft)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endif()
install(TARGETS weft_run_program)
install(FILES ${PROJECT_SOURCE_DIR}/include/weft_run.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT weft FILE weft-targets.cmake NAMESPACE weft:: DESTINATION ${package_folder})
# The component onnx, whose library a program that does not ask for it need not have.
set(WEFT_COMPONENTS)
if(TARGET weft_onnx)
  set(WEFT_COMPONENTS onnx)
  install(TARGETS weft_onnx EXPORT weft-onnx)
  install(EXPORT weft-onnx FILE weft-onnx-targets.cmake NAMESPACE weft:: DESTINATION ${package_folder})
  export(EXPORT weft-onnx FILE ${PROJECT_BINARY_DIR}/weft-onnx-targets.cmake NAMESPACE weft::)
endif()
export(EXPORT weft FILE ${PROJECT_BINARY_DIR}/weft-targets.cmake NAMESPACE weft::)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/weft-config.cmake.in
  ${PROJECT_BINARY_DIR}/weft-config.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/weft-config-version.cmake COMPATIBILITY SameMinorVersion)
file(COPY ${PROJECT_SOURCE_DIR}/cmake/weft-libraries.cmake DESTINATION ${PROJECT_BINARY_DIR})
install(FILES ${PROJECT_BINARY_DIR}/weft-config.cmake ${PROJECT_BINARY_DIR}/weft-config-version.cmake
  ${PROJECT_BINARY_DIR}/weft-libraries.cmake DESTINATION ${package_folder})
