# Warnings for our own code only; never part of what is installed.
add_library(kedge_warnings INTERFACE)
set(warnings -Wall -Wextra -Wconversion -Wshadow)
if(KEDGE_WERROR)
  list(APPEND warnings -Werror)
  target_compile_options(kedge_warnings INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
target_compile_options(kedge_warnings INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${warnings}>")
# nvcc warns of a conversion operator that a template leaves unused.
target_compile_options(kedge_warnings INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:--diag-suppress=554>)
