// Names of leaves, for messages. In: the types of a call and its leaves. Out: `argument 0`, `argument 0 (in.weight)`.
#pragma once
#include <string>
#include <vector>

#include "record/leaf_paths.hpp"
#include "weft/compile.hpp"

namespace weft::detail {

// One a leaf, in order.
std::vector<std::string> argument_names(const CallSignature& signature, const LeafList& arguments);
// `the result`, `the result (loss)`.
std::vector<std::string> result_names(const CallSignature& signature, const LeafList& results);

// The path in it: of `argument 0 (in.weight)` it is `in.weight`, of `argument 0` it is empty.
std::string path_in(const std::string& name);

// Of a leaf that counts: `length 3`, `a value` or `no value`, `alternative 1` or its name, `a Scale` or `no object`.
std::string count_text(const Leaf& leaf, std::uint64_t count);

// The first four of these, separated by commas, "and 9 more" where there are others.
std::string few_of(const std::vector<std::string>& parts);

}  // namespace weft::detail
