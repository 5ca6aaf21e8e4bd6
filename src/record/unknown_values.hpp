// Why a trace that can read no value can't.
#pragma once
#include <string>

#include "weft/error.hpp"

namespace weft {

// Who exports the function that this thread traces; null: nobody.
struct Exporter {
  const char* operation = nullptr;
  Loc line = {};
};
inline thread_local constinit Exporter exporter;

// Of the thread's trace, as the end of a sentence: "in the body of a loop, which is recorded once for all rounds".
std::string where_values_are_unknown();

}  // namespace weft
