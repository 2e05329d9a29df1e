# For a wheel that other machines can use (scripts/wheel): OpenBLAS comes from PyPI's scipy-openblas32, and this machine's
# C++ libraries are linked statically. Only the linking differs from other builds, so ccache serves them all.
foreach(name BLAS::BLAS kedge_lapacke)
  add_library(${name} SHARED IMPORTED)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${KEDGE_OPENBLAS})
endforeach()
include(KedgeDependencies)

# Its names begin with scipy_, so it never clashes with another OpenBLAS in the same Python process. The calls to it are
# renamed after they are compiled.
execute_process(COMMAND ${CMAKE_NM} -D --defined-only ${KEDGE_OPENBLAS} OUTPUT_VARIABLE symbols
  COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL " scipy_[^\n]+" symbols "${symbols}")
list(TRANSFORM symbols REPLACE " scipy_(.+)" "\\1 scipy_\\1\n")
set(renamed_symbols ${PROJECT_BINARY_DIR}/blas-symbols.txt)
string(CONCAT symbols ${symbols})
file(WRITE ${renamed_symbols} "${symbols}")

function(kedge_rename_blas target)
  add_custom_command(TARGET ${target} POST_BUILD VERBATIM
    COMMAND ${CMAKE_OBJCOPY} --redefine-syms=${renamed_symbols} $<TARGET_FILE:${target}>)
endfunction()

get_target_property(faiss_library faiss LOCATION)
set(renamed_faiss ${PROJECT_BINARY_DIR}/libfaiss.a)
execute_process(COMMAND ${CMAKE_OBJCOPY} --redefine-syms=${renamed_symbols} ${faiss_library} ${renamed_faiss}
  COMMAND_ERROR_IS_FATAL ANY)
set_target_properties(faiss PROPERTIES IMPORTED_CONFIGURATIONS "" IMPORTED_LOCATION ${renamed_faiss}
  INTERFACE_LINK_LIBRARIES "$<LINK_ONLY:OpenMP::OpenMP_CXX>;BLAS::BLAS")

# Debian has {fmt} as a shared library only.
add_library(kedge_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt.cpp)
set_target_properties(kedge_fmt PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_compile_features(kedge_fmt PRIVATE cxx_std_20)
set_target_properties(fmt::fmt PROPERTIES IMPORTED_CONFIGURATIONS ""
  IMPORTED_LOCATION ${PROJECT_BINARY_DIR}/libkedge_fmt.a)
add_dependencies(fmt::fmt kedge_fmt)

# The module keeps its libstdc++ to itself, whatever version others in the process use. Code that nothing calls is left
# out, because some of libstdc++ needs a newer glibc than the rest.
add_link_options(-static-libstdc++ -Wl,--exclude-libs,ALL -Wl,--gc-sections)
