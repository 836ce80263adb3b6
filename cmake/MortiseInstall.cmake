# SPDX-License-Identifier: MIT
# `cmake --install`: the headers, the package files for find_package(mortise), and mortise.pc. Nothing of it depends on the
# architecture, so it goes below share/.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_DATADIR}/cmake/mortise")

target_include_directories(mortise INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
install(TARGETS mortise EXPORT mortise-targets)
install(EXPORT mortise-targets NAMESPACE mortise:: DESTINATION "${package_dir}")
install(
  DIRECTORY include/mortise
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING
  PATTERN "*.hpp"
)
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")

configure_package_config_file(cmake/mortise-config.cmake.in mortise-config.cmake INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file(mortise-config-version.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(
  FILES "${CMAKE_CURRENT_BINARY_DIR}/mortise-config.cmake"
        "${CMAKE_CURRENT_BINARY_DIR}/mortise-config-version.cmake"
        cmake/Findhiredis.cmake
  DESTINATION "${package_dir}"
)

# Relative to the file itself, so that the installed tree may be moved.
file(RELATIVE_PATH prefix_from_pc "${CMAKE_INSTALL_FULL_DATADIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
file(RELATIVE_PATH includedir_from_prefix "${CMAKE_INSTALL_PREFIX}" "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
foreach(pc IN ITEMS mortise.pc mortise-tls.pc)
  configure_file(cmake/${pc}.in ${pc} @ONLY)
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/${pc}" DESTINATION "${CMAKE_INSTALL_DATADIR}/pkgconfig")
endforeach()
