// Names of what an exported graph takes and gives: members of the arguments and of the result.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "trace/call_layout.hpp"

namespace weft::detail {

class UniqueNames {
 public:
  // The name, followed by _ as often as it was given before.
  std::string unique(std::string name) {
    while (!taken_.insert(name).second) name += '_';
    return name;
  }
  bool has(const std::string& name) const { return taken_.contains(name); }

 private:
  std::set<std::string> taken_;
};

// The path in its argument, `in.weight`; `input_1` of argument 1 where that is the tensor itself.
std::string input_name(const CallLayout& layout, std::size_t leaf);
// Of each tensor of a result the path that begins with a member's name; empty where there is none.
std::vector<std::string> result_members(const CallSignature& signature, const LeafList& results);
// The member, or `output`, `output_1`, ... where it is empty. `number`: of outputs before it.
std::string output_name(const std::string& member, std::size_t number);

}  // namespace weft::detail
