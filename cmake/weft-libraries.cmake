# weft_find_libraries(ARCHIVES|SHARED name...): the imported targets weft::minizip, weft::png, weft::jpeg and
# weft::protobuf_lite, of libraries that have no package file on every system; each where it is installed. The build uses this file, and weft-config.cmake,
# beside which it is installed: a static weft asks its program's link for the same.
set(WEFT_FILES_minizip minizip)
set(WEFT_FILES_png png16)
set(WEFT_FILES_jpeg turbojpeg)
set(WEFT_FILES_protobuf_lite protobuf-lite)

function(weft_find_libraries kind)
  foreach(name IN LISTS ARGN)
    set(names ${WEFT_FILES_${name}})
    if(kind STREQUAL ARCHIVES)  # first: a program then needs none of them to run
      list(PREPEND names lib${WEFT_FILES_${name}}.a)
    endif()
    string(TOUPPER WEFT_${name}_LIBRARY file)
    find_library(${file} NAMES ${names})
    mark_as_advanced(${file})
    if(${file} AND NOT TARGET weft::${name})
      add_library(weft::${name} UNKNOWN IMPORTED)
      set_target_properties(weft::${name} PROPERTIES IMPORTED_LOCATION ${${file}})
    endif()
  endforeach()
endfunction()
