# weft_build_flags(target): what every target of ours is compiled with, and no consumer inherits.
# Contraction is off everywhere, so that a product and a sum round the same at every ISA and in every executor.
function(weft_build_flags target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  target_compile_options(${target} PRIVATE -ffp-contract=off -Wall -Wextra
    -Wno-missing-field-initializers)  # designated initializers leave the rest at its default on purpose
  if(WEFT_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # g++ 12 warns of overlap in every `"text" + std::string()` (its bug 105651); its other warnings that depend on what
    # was inlined are kept, but a false one must not stop a build.
    target_compile_options(${target} PRIVATE -Wno-restrict -Wno-error=array-bounds -Wno-error=stringop-overflow
      -Wno-error=stringop-overread -Wno-error=maybe-uninitialized -Wno-error=dangling-pointer)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    # clang 19 warns of what libstdc++ 12's stable_sort calls itself.
    target_compile_options(${target} PRIVATE -Wno-deprecated-declarations)
  endif()
  if(WEFT_SANITIZE)
    # Four of UBSan's checks take a quarter of the build's time. What null and object-size find, ASan finds too;
    # alignment and vptr are given up.
    set(flags -fsanitize=${WEFT_SANITIZE} -fno-sanitize=null,alignment,object-size,vptr -fno-omit-frame-pointer
      -fno-sanitize-recover=all)
    target_compile_options(${target} PRIVATE ${flags})
    target_link_options(${target} PRIVATE ${flags})
  endif()
endfunction()

# weft_headers_of(target dependency...): the include folders of header-only dependencies, and nothing else of them, so
# that an exported static library does not name them.
function(weft_headers_of target)
  foreach(dependency IN LISTS ARGN)
    target_include_directories(${target} SYSTEM PRIVATE
      $<TARGET_PROPERTY:${dependency},INTERFACE_INCLUDE_DIRECTORIES>)
  endforeach()
endfunction()
