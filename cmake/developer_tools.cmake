# Faster builds of a checkout: ccache as the launcher and mold as the linker, each only where it is found. Nothing of it
# reaches a consumer.
find_program(WEFT_CCACHE ccache)
if(WEFT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${WEFT_CCACHE})
endif()
find_program(WEFT_MOLD mold)
if(WEFT_MOLD AND NOT CMAKE_CROSSCOMPILING)
  add_link_options(-fuse-ld=mold)
endif()
