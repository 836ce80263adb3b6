# SPDX-License-Identifier: MIT
# cmake -D CXX=compiler -D INCLUDES=list -D SOURCE=nodiscard.cpp -P nodiscard.cmake
# Every line that says "warns" is warned of as an unused result, and no other line is.
list(TRANSFORM INCLUDES PREPEND -I)
execute_process(
  COMMAND "${CXX}" -std=c++20 -fsyntax-only -Wunused-result ${INCLUDES} "${SOURCE}"
  RESULT_VARIABLE failed
  ERROR_VARIABLE messages
)
if(failed)
  message(FATAL_ERROR "does not compile:\n${messages}")
endif()

file(STRINGS "${SOURCE}" lines)
set(number 0)
foreach(line IN LISTS lines)
  math(EXPR number "${number} + 1")
  string(REGEX MATCH "nodiscard\\.cpp:${number}:[^\n]*\\[-Wunused-result\\]" warned "${messages}")
  if(line MATCHES "// warns$" AND NOT warned)
    message(SEND_ERROR "line ${number} drops an answer without a warning: ${line}")
  elseif(NOT line MATCHES "// warns$" AND warned)
    message(SEND_ERROR "line ${number} may drop its answer, and is warned of: ${line}")
  endif()
endforeach()
