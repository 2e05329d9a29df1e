# Warnings for our own code only; never part of what is installed.
add_library(kedge_warnings INTERFACE)
target_compile_options(kedge_warnings INTERFACE -Wall -Wextra -Wconversion -Wshadow)
if(KEDGE_WERROR)
  target_compile_options(kedge_warnings INTERFACE -Werror)
endif()
