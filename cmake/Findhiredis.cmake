# SPDX-License-Identifier: MIT
# Makes the imported target hiredis::hiredis, with which `#include <hiredis/hiredis.h>` works, from the first of
#   1. hiredis-config.cmake (hiredis >= 1.0, where it was built with CMake),
#   2. pkg-config,
#   3. a header and a library in the usual places.
# Sets hiredis_FOUND and hiredis_VERSION. A target hiredis::hiredis that is there already is taken as it is.
include(FindPackageHandleStandardArgs)

set(hiredis_hints "")
if(NOT TARGET hiredis::hiredis)
  find_package(hiredis CONFIG QUIET)
endif()
if(TARGET hiredis::hiredis)
  set(hiredis_LIBRARY hiredis::hiredis)
  get_target_property(hiredis_hints hiredis::hiredis INTERFACE_INCLUDE_DIRECTORIES)
  list(FILTER hiredis_hints EXCLUDE REGEX "\\$<|NOTFOUND")
else()
  find_package(PkgConfig QUIET)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(hiredis_pc QUIET hiredis)
    set(hiredis_hints ${hiredis_pc_INCLUDE_DIRS} ${hiredis_pc_INCLUDEDIR})
  endif()
  find_library(hiredis_LIBRARY NAMES hiredis HINTS ${hiredis_pc_LIBRARY_DIRS} ${hiredis_pc_LIBDIR})
endif()

# Both say either where the folder hiredis/ is or, as the .pc files of some versions do, the folder itself.
set(hiredis_hints_above ${hiredis_hints})
list(TRANSFORM hiredis_hints_above APPEND "/..")
find_path(hiredis_INCLUDE_DIR NAMES hiredis/hiredis.h HINTS ${hiredis_hints} ${hiredis_hints_above})
if(hiredis_INCLUDE_DIR)
  get_filename_component(hiredis_include_dir "${hiredis_INCLUDE_DIR}" ABSOLUTE)
  file(STRINGS "${hiredis_include_dir}/hiredis/hiredis.h" hiredis_VERSION
       REGEX "^#define HIREDIS_(MAJOR|MINOR|PATCH) [0-9]+")
  string(REGEX REPLACE "[^0-9;]" "" hiredis_VERSION "${hiredis_VERSION}")
  list(JOIN hiredis_VERSION "." hiredis_VERSION)
endif()

find_package_handle_standard_args(
  hiredis
  REQUIRED_VARS hiredis_LIBRARY hiredis_INCLUDE_DIR
  VERSION_VAR hiredis_VERSION
  REASON_FAILURE_MESSAGE "Install hiredis with its headers (Debian and Ubuntu: libhiredis-dev)"
)
if(hiredis_FOUND AND NOT TARGET hiredis::hiredis)
  add_library(hiredis::hiredis UNKNOWN IMPORTED)
  set_target_properties(hiredis::hiredis PROPERTIES IMPORTED_LOCATION "${hiredis_LIBRARY}")
endif()
if(hiredis_FOUND)
  get_target_property(hiredis_aliased hiredis::hiredis ALIASED_TARGET)
  if(NOT hiredis_aliased)
    set_property(TARGET hiredis::hiredis APPEND PROPERTY INTERFACE_INCLUDE_DIRECTORIES "${hiredis_include_dir}")
  endif()
endif()
mark_as_advanced(hiredis_LIBRARY hiredis_INCLUDE_DIR)
unset(hiredis_hints)
unset(hiredis_hints_above)
unset(hiredis_include_dir)
unset(hiredis_aliased)
