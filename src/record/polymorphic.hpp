// Names of classes that derive from Polymorphic, for messages and files.
#pragma once
#include <cstdint>
#include <string>

namespace weft::detail {

// Of the number that class_number() gives.
std::string class_of_number(std::uint64_t number);

}  // namespace weft::detail
