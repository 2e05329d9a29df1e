# Headers of the standard library and of others that most files of a target include, compiled once for all of them.
# Each file still includes what it uses: 'make lint' compiles without these.
function(kedge_precompile target)
  target_precompile_headers(${target} PRIVATE
    <algorithm> <array> <atomic> <cmath> <cstdint> <exception> <filesystem> <functional> <limits> <map> <memory> <mutex>
    <optional> <span> <string> <string_view> <thread> <utility> <variant> <vector> ${ARGN})
endfunction()
