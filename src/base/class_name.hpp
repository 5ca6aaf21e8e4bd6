// Names of the user's classes, as a person writes them.
#pragma once
#include <string>

namespace weft {

// Of what type_info::name() gives.
std::string class_name(const char* mangled);

}  // namespace weft
