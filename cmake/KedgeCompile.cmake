# How the core and the laboratory are compiled, each in a part for numbers and one for text.
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(nlohmann_json 3.11 REQUIRED)

function(kedge_compile)
  foreach(part IN LISTS ARGN)
    target_compile_features(${part} PUBLIC cxx_std_20)
    target_compile_definitions(${part} PRIVATE EIGEN_USE_BLAS)
    set_target_properties(${part} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
    target_link_libraries(${part} PRIVATE fmt::fmt Threads::Threads
      $<BUILD_INTERFACE:Eigen3::Eigen> $<BUILD_INTERFACE:nlohmann_json::nlohmann_json> $<BUILD_INTERFACE:kedge_warnings>)
    # By hand, as CMake before 3.26 does not know how to ask a new nvcc for it.
    target_compile_options(${part} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr>")
  endforeach()
endfunction()
