#include "codegen/prelude.hpp"

#include <sstream>
#include <string_view>
#include <vector>

#include "base/lazy.hpp"

namespace weft::codegen {

extern const char embedded_lanes_native[];
extern const char embedded_lanes[];
extern const char embedded_lanes_memory[];
extern const char embedded_lanes_functions[];
extern const char embedded_lanes_math[];
extern const char embedded_lanes_trig[];
extern const char embedded_lanes_special[];
extern const char embedded_lanes_power[];
extern const char embedded_lanes_random[];
extern const char embedded_lanes_half[];
extern const char embedded_reduce_chunks[];
extern const char embedded_reduce[];
extern const char embedded_kernel[];

namespace {

// The texts in the order in which they are pasted: a section needs only what precedes it.
constexpr const char* const texts[] = {embedded_lanes_native,    embedded_lanes,         embedded_lanes_memory,
                                       embedded_lanes_functions, embedded_lanes_math,    embedded_lanes_trig,
                                       embedded_lanes_special,   embedded_lanes_power,   embedded_lanes_random,
                                       embedded_lanes_half,      embedded_reduce_chunks, embedded_reduce,
                                       embedded_kernel};

struct Section {
  std::string name;  // empty: always pasted
  std::vector<std::string> needs;
  std::string_view text;
};

// Cuts a text at its lines `//@ name needs other...`.
void cut(std::string_view text, std::vector<Section>& sections) {
  constexpr std::string_view mark = "\n//@ ";
  Section section;
  while (true) {
    const std::size_t end = text.find(mark);
    section.text = text.substr(0, end);
    sections.push_back(section);
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + mark.size());
    const std::size_t line_end = text.find('\n');
    std::istringstream line{std::string(text.substr(0, line_end))};
    section = {};
    line >> section.name;
    std::string word;
    if (line >> word)  // "needs"
      while (line >> word) section.needs.push_back(word);
    text.remove_prefix(line_end);
  }
}

const std::vector<Section>& all_sections() {
  static constinit Lazy<const std::vector<Section>> sections;
  return sections.get([] {
    std::vector<Section> result;
    for (const char* text : texts) cut(text, result);
    return result;
  });
}

}  // namespace

std::string prelude(const std::set<std::string>& functions) {
  const std::vector<Section>& sections = all_sections();
  // Needs point backwards, so one walk from the end finds all of them.
  std::set<std::string> wanted = functions;
  std::vector<bool> pasted(sections.size());
  for (std::size_t i = sections.size(); i-- > 0;) {
    pasted[i] = sections[i].name.empty() || wanted.count(sections[i].name) > 0;
    if (pasted[i]) wanted.insert(sections[i].needs.begin(), sections[i].needs.end());
  }
  std::string text;
  for (std::size_t i = 0; i < sections.size(); ++i)
    if (pasted[i]) (text += sections[i].text) += '\n';
  return text;
}

}  // namespace weft::codegen
