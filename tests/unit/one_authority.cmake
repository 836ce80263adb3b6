# SPDX-License-Identifier: MIT
# cmake -D CXX=compiler -D INCLUDES=list -D SOURCE=one_authority.cpp -P one_authority.cmake
# The source compiles; with a SharedLock or a Semaphore in it, it does not, and the message names the type and the reason.
list(TRANSFORM INCLUDES PREPEND -I)
function(compile refused)
  execute_process(
    COMMAND "${CXX}" -std=c++20 -fsyntax-only ${INCLUDES} ${refused} "${SOURCE}"
    RESULT_VARIABLE failed
    ERROR_VARIABLE messages
  )
  set(failed "${failed}" PARENT_SCOPE)
  set(messages "${messages}" PARENT_SCOPE)
endfunction()

compile("")
if(failed)
  message(FATAL_ERROR "does not compile:\n${messages}")
endif()
set(SharedLock "mortise::SharedLock<Majority>{backend, \"name\"}")
set(Semaphore "mortise::Semaphore<Majority>{backend, \"name\", 3}")
foreach(type IN ITEMS SharedLock Semaphore)
  compile("-DREFUSED=${${type}}")
  if(NOT failed)
    message(SEND_ERROR "${type} compiles over several authorities")
  elseif(NOT messages MATCHES "mortise::${type} needs one authority")
    message(SEND_ERROR "${type} is refused for another reason:\n${messages}")
  endif()
endforeach()
