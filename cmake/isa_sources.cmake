# weft_isa_sources(target files...): compiles each file once for each ISA into `target`, with WEFT_ISA_NAMESPACE set to
# baseline, avx2 or avx512. Everything such a file defines must sit in a namespace of that name (tools/check_symbols
# holds this): the linker keeps one copy of any inline function, and an AVX-512 copy of it would crash an older CPU.
# Always optimized: the lanes are built for registers, and a function
# that -O0 leaves out of line would be shared across ISAs. Not sanitized: a file takes g++ a minute then, eighteen times,
# and the lanes cannot run past what the block loops around them hand over, which are.
# On other machines than x86-64 a file is compiled once, as baseline, for what the compiler takes the machine for.
set(WEFT_ISA_NAMES baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(WEFT_ISA_NAMES baseline avx2 avx512)
  set(WEFT_ISA_FLAGS_baseline -march=x86-64)
  set(WEFT_ISA_FLAGS_avx2 -march=x86-64-v3)
  set(WEFT_ISA_FLAGS_avx512 -march=x86-64-v4 -mprefer-vector-width=512)
endif()

# A quick build is for this machine: each file once, for its ISA, which then has the other names too.
if(WEFT_QUICK_BUILD AND NOT CMAKE_CROSSCOMPILING AND WEFT_ISA_NAMES MATCHES avx512)
  file(WRITE ${PROJECT_BINARY_DIR}/host_isa.cpp "
    int main() {
      __builtin_cpu_init();
      const bool avx2 = __builtin_cpu_supports(\"avx2\") && __builtin_cpu_supports(\"fma\") && __builtin_cpu_supports(\"bmi2\");
      const bool avx512 = __builtin_cpu_supports(\"avx512f\") && __builtin_cpu_supports(\"avx512bw\") &&
                          __builtin_cpu_supports(\"avx512cd\") && __builtin_cpu_supports(\"avx512dq\") &&
                          __builtin_cpu_supports(\"avx512vl\");
      return !avx2 ? 0 : avx512 ? 2 : 1;
    }")
  try_run(host_isa runs ${PROJECT_BINARY_DIR}/host_isa ${PROJECT_BINARY_DIR}/host_isa.cpp)
  if(host_isa MATCHES "^[012]$")
    list(GET WEFT_ISA_NAMES ${host_isa} WEFT_ISA_NAMES)
    add_compile_definitions(WEFT_ONLY_ISA=${WEFT_ISA_NAMES} WEFT_ONLY_ISA_IS_${WEFT_ISA_NAMES})
  endif()
endif()

function(weft_isa_sources target)
  if(NOT ARGN)
    return()
  endif()
  foreach(isa IN LISTS WEFT_ISA_NAMES)
    set(objects ${target}_${isa})
    add_library(${objects} OBJECT ${ARGN})
    weft_build_flags(${objects})
    target_compile_definitions(${objects} PRIVATE WEFT_ISA_NAMESPACE=${isa})
    target_compile_options(${objects} PRIVATE ${WEFT_ISA_FLAGS_${isa}} -O3 -Wno-psabi -fopenmp -fno-sanitize=all)
    target_include_directories(${objects} PRIVATE
      ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
    weft_headers_of(${objects} Eigen3::Eigen)
    set_target_properties(${objects} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
  endforeach()
endfunction()
