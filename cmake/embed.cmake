# weft_embed(target file symbol): compiles the text of `file` into `target` as
#   namespace weft::codegen { extern const char symbol[]; }
# Of a device's texts (cuda*.inc), which every program carries, lines of comments stay behind.
# Made again whenever the file changes. The text is cut into raw-string pieces, so its length has no limit; it must not
# contain the delimiter, which is checked. Run as a script (cmake -P) this file writes the generated source.
if(CMAKE_SCRIPT_MODE_FILE)
  set(piece 12000)
  file(READ ${FILE} text)
  cmake_path(GET FILE STEM name)
  if(name MATCHES "^cuda")
    string(REGEX REPLACE "\n *//( [^\n]*)?" "" text "${text}")
  endif()
  string(FIND "${text}" ")weft_text" clash)
  if(NOT clash EQUAL -1)
    message(FATAL_ERROR "${FILE} contains the raw-string delimiter )weft_text")
  endif()
  string(LENGTH "${text}" length)
  file(WRITE ${OUTPUT} "namespace weft::codegen {\nextern const char ${SYMBOL}[];\nconst char ${SYMBOL}[] =\n")
  set(offset 0)
  while(offset LESS length)
    string(SUBSTRING "${text}" ${offset} ${piece} part)
    file(APPEND ${OUTPUT} "R\"weft_text(${part})weft_text\"\n")
    math(EXPR offset "${offset} + ${piece}")
  endwhile()
  file(APPEND ${OUTPUT} "\"\";\n}  // namespace weft::codegen\n")
  return()
endif()

set(WEFT_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
function(weft_embed target file symbol)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/embedded/${symbol}.cpp)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DFILE=${file} -DOUTPUT=${output} -DSYMBOL=${symbol} -P ${WEFT_EMBED_SCRIPT}
    DEPENDS ${file} ${WEFT_EMBED_SCRIPT}
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
