# SPDX-License-Identifier: MIT
# mortise::warnings: what the tests and the examples of this project are compiled with. Nothing that is installed or that
# another project links has it.
option(MORTISE_WERROR "Warnings in the tests and the examples are errors (the default preset sets it)" OFF)

add_library(mortise_warnings INTERFACE)
add_library(mortise::warnings ALIAS mortise_warnings)
target_compile_options(
  mortise_warnings
  INTERFACE -Wall
            -Wextra
            -Wpedantic
            -Wconversion
            -Wsign-conversion
            -Wshadow
            $<$<BOOL:${MORTISE_WERROR}>:-Werror>
)
