// Leaves of a typed call and of its result as a package says of them. In: a leaf. Out: what it is, by value.
#pragma once
#include "runtime/package_file.hpp"
#include "weft/package.hpp"

namespace weft::detail {

// Sizes are numbers.
runtime::PackageLeaf package_leaf(const Leaf& leaf, const std::string& name = {});

// The first line of two lists of types that differs: "the package has `argument 0: Tensor`, the program ...".
std::string first_difference(const std::vector<std::string>& a, const std::vector<std::string>& b, const char* who_a,
                             const char* who_b);

}  // namespace weft::detail
