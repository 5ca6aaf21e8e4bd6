// Divides kernels into translation units of about equal cost. The compiler driver decides how many units are worth it
// (unit_count in runtime/host/jit.hpp).
#include <algorithm>
#include <set>

#include "codegen/cpp.hpp"
#include "codegen/prelude.hpp"

namespace weft::codegen {

namespace {

bool is_word(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Every identifier of the kernels: the prelude pastes the functions among them.
void find_words(const std::string& text, std::set<std::string>& words) {
  for (std::size_t i = 0; i < text.size();) {
    if (text.compare(i, 2, "//") == 0) i = std::min(text.find('\n', i), text.size());
    std::size_t end = i;
    while (end < text.size() && is_word(text[end])) ++end;
    if (end > i) words.insert(text.substr(i, end - i));
    i = std::max(end, i + 1);
  }
}

// About how long a kernel takes to compile, in simple statements; what is compiled for whole vectors and for the rest
// counts twice.
int size_of(const loop::Kernel& kernel) {
  int size = 20;
  for (const loop::Instruction& instruction : kernel.body) size += 1 + std::min(loop::weight(instruction), 24);
  const bool has_rest = kernel.vector_axis >= 0 &&
                        !(kernel.axes[static_cast<std::size_t>(kernel.vector_axis)].extent % Dim(16)).same(Dim(0));
  return has_rest ? 2 * size : size;
}

}  // namespace

std::vector<std::string> cpp_units(std::span<const loop::Kernel> kernels, std::size_t count, Digest* digest) {
  count = std::min(count, kernels.size());
  if (count == 0) return {};
  // The largest first, each to the unit that is shortest so far; within a unit in the order in which they run.
  std::vector<std::size_t> order(kernels.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return size_of(kernels[a]) > size_of(kernels[b]); });
  std::vector<int> filled(count, 0);
  std::vector<std::vector<std::size_t>> members(count);
  for (const std::size_t i : order) {
    const auto unit = static_cast<std::size_t>(std::min_element(filled.begin(), filled.end()) - filled.begin());
    filled[unit] += size_of(kernels[i]);
    members[unit].push_back(i);
  }

  std::vector<std::string> units, texts;
  for (const loop::Kernel& kernel : kernels) texts.push_back(generate_cpp(kernel));
  std::set<std::string> all_words;
  for (std::vector<std::size_t>& unit : members) {
    std::sort(unit.begin(), unit.end());
    std::string functions;
    for (const std::size_t i : unit) functions += "\n" + texts[i];
    std::set<std::string> words;
    find_words(functions, words);
    units.push_back(prelude(words) + functions);
    all_words.merge(words);
  }
  if (digest) {
    Hasher hasher;
    hasher.add(prelude(all_words));
    for (const std::string& text : texts) hasher.add(text);
    *digest = hasher.digest();
  }
  return units;
}

}  // namespace weft::codegen
