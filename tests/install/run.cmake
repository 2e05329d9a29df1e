# SPDX-License-Identifier: Apache-2.0
file(REMOVE_RECURSE ${WORK}/prefix ${WORK}/build)
foreach(step
    "${CMAKE_COMMAND};--install;${BUILD};--prefix;${WORK}/prefix"
    "${CMAKE_COMMAND};-G;Ninja;-S;${SOURCE};-B;${WORK}/build;-DCMAKE_PREFIX_PATH=${WORK}/prefix;-DCMAKE_CXX_COMPILER=${CXX};-DCMAKE_CXX_FLAGS=${FLAGS}"
    "${CMAKE_COMMAND};--build;${WORK}/build"
    "${WORK}/build/consumer"
    "${WORK}/build/lab_consumer")
  execute_process(COMMAND ${step} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
foreach(script bash-completion/completions/kedge zsh/site-functions/_kedge)
  file(READ ${WORK}/prefix/share/${script} text)
  if(NOT text MATCHES "--similarity")
    message(FATAL_ERROR "share/${script} does not complete kedge's options")
  endif()
endforeach()
