// The set of operations of graphs in files: what a version holds is a list in the tree, and does not change.
#include "ir/operation_set.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "weft/export.hpp"

using namespace weft;

namespace {

std::string list_path(int version) {
  return WEFT_SOURCE_DIR "/tests/export/operation_sets/" + std::to_string(version) + ".txt";
}
std::string read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}
bool updates() {
  const char* const set = std::getenv("WEFT_UPDATE_DOCS");
  return set && *set == '1';
}

std::string list_of_now() {
  std::string text;
  for (const OperationRow& row : operation_rows()) text += row.text() + "\n";
  return text;
}
// The first set that has the operation, by its name as it begins a line.
std::map<std::string, int> first_sets() {
  std::map<std::string, int> since;
  for (int version = 1; version <= operation_set; ++version) {
    std::istringstream lines(read(list_path(version)));
    for (std::string line; std::getline(lines, line);)
      since.try_emplace(line.substr(0, line.find(", operands")), version);
  }
  return since;
}
std::string page_of_now() {
  const std::map<std::string, int> since = first_sets();
  const auto line = [&](const OperationRow& row) {
    const auto found = since.find((row.is_composite ? "composite " : "") + row.name);
    std::string text = "| `" + row.name + "` | ", before;
    if (!row.is_composite) text += row.operands + " | ";
    for (const std::string& each : row.attributes) text += std::exchange(before, ", ") + "`" + each + "`";
    return text + " | " + (found == since.end() ? "?" : std::to_string(found->second)) + " |\n";
  };
  std::string text = "# Operation set " + std::to_string(operation_set) +
                     "\n\n"
                     "What graphs in files are made of ([export.md](export.md)). This page is made from the tables "
                     "`weft/ops.def` and\n"
                     "`src/ir/composites.hpp` by the test `export/operation_set`, with `WEFT_UPDATE_DOCS=1`; what each "
                     "operation means is said in\n"
                     "`weft/ops.def`. A version of Weft reads graphs of its own set and of all before it. A change to "
                     "an operation, its operands or its\n"
                     "attributes makes a new set; an attribute that a file does not have has its default.\n\n"
                     "An attribute named `value` is written without its name in the text of a graph.\n\n"
                     "## Primitives\n\n| operation | operands | attributes | since set |\n|---|---|---|---|\n";
  for (const OperationRow& row : operation_rows())
    if (!row.is_composite) text += line(row);
  text +=
      "\n## Composites\n\nA composite is a `call`: a function of the library that is kept whole, with its body, a "
      "graph. Who reads one that it\n"
      "does not know takes the body. Those that are not listed have their name alone, and one whose name ends in "
      "`_backward` has the\n"
      "attributes of what it is the derivative of.\n\n| composite | attributes | since set |\n|---|---|---|\n";
  for (const OperationRow& row : operation_rows())
    if (row.is_composite) text += line(row);
  return text;
}

}  // namespace

TEST_CASE("the operations are those of the list of their set") {
  const std::string path = list_path(operation_set);
  if (updates() && !std::filesystem::exists(path)) std::ofstream(path) << list_of_now();
  INFO(
      "An operation set never changes once a version has it. Raise operation_set in src/ir/operation_set.hpp, and run ",
      "this test with WEFT_UPDATE_DOCS=1, which writes the list of the new set and docs/operation_set.md.");
  CHECK(read(path) == list_of_now());
  CHECK(operation_set_version() == operation_set);
  CHECK_FALSE(std::filesystem::exists(list_path(operation_set + 1)));
}

TEST_CASE("graphs of earlier sets can be read: nothing that a set had is gone") {
  const std::string now = "\n" + list_of_now();
  for (int version = 1; version < operation_set; ++version) {
    std::istringstream lines(read(list_path(version)));
    // Attributes may be added at the end: those of an old file have their defaults.
    for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(now.find("\n" + line) != now.npos, line);
  }
}

TEST_CASE("docs/operation_set.md is made from the table") {
  const std::string path = WEFT_SOURCE_DIR "/docs/operation_set.md";
  if (updates()) std::ofstream(path) << page_of_now();
  CHECK_MESSAGE(read(path) == page_of_now(), "WEFT_UPDATE_DOCS=1 writes the page");
}
