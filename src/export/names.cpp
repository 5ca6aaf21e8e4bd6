#include "export/names.hpp"

#include <cctype>

#include "base/fail.hpp"
#include "trace/names.hpp"

namespace weft::detail {

std::string input_name(const CallLayout& layout, std::size_t leaf) {
  std::string path = path_in(layout.name(leaf));
  return path.empty() ? concat_text("input_", layout.leaf(leaf).argument) : path;
}

std::vector<std::string> result_members(const CallSignature& signature, const LeafList& results) {
  std::vector<std::string> members, names = result_names(signature, results);
  for (std::size_t i = 0; i < results.leaves.size(); ++i) {
    if (!holds_tensor(results.leaves[i].kind)) continue;
    std::string path = path_in(names[i]);
    const bool is_member = !path.empty() && (std::isalpha(static_cast<unsigned char>(path[0])) || path[0] == '_');
    members.push_back(is_member ? std::move(path) : std::string());
  }
  return members;
}

std::string output_name(const std::string& member, std::size_t number) {
  if (!member.empty()) return member;
  return number == 0 ? "output" : concat_text("output_", number);
}

}  // namespace weft::detail
