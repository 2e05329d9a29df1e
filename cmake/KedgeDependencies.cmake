# What kedge is built from; all of it is packaged by Debian. Read by the build and by the installed package alike.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)

if(NOT TARGET BLAS::BLAS)
  set(BLA_VENDOR OpenBLAS)
  find_package(BLAS REQUIRED)
endif()

if(NOT TARGET kedge_lapacke)
  find_library(KEDGE_LAPACKE_LIBRARY lapacke REQUIRED)
  add_library(kedge_lapacke INTERFACE IMPORTED)
  target_link_libraries(kedge_lapacke INTERFACE ${KEDGE_LAPACKE_LIBRARY})
endif()

if(KEDGE_FAISS)
  find_package(OpenMP QUIET COMPONENTS CXX)  # FAISS's package uses it without finding it
  find_package(faiss CONFIG QUIET)
endif()
if(KEDGE_CUDA)
  find_package(CUDAToolkit REQUIRED)
endif()
