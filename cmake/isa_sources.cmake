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
