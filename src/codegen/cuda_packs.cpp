#include "codegen/cuda_packs.hpp"

#include <algorithm>

#include "base/fail.hpp"

namespace weft::codegen {

using loop::Kind;
using loop::Statement;

void DevicePacks::write_blocks_of_tile(const Statement& it) {
  const int load = kept_in(it.body[0]), slow = it.axes[0].axis, fast = it.axes[1].axis, outside = depth_;
  const std::string width = number(team_.width), packs = number(team_.tile / team_.width), i = number(load);
  pack_axis_ = fast;
  open("{");
  line("const int block = threadIdx.x / " + packs + ", pack = threadIdx.x % " + packs + ";");
  line("const index begin = first" + number(fast) + " + pack * " + width + ";");
  line(pack_type(load) + " read" + i + "[" + width + "];");
  for (const bool words : {true, false}) {
    open(words ? "if (at_words<" + width + ">(" + buffer_name(at(load).buffer) + ")) {" : "else {");
    line("#pragma unroll");
    open("for (int row = 0; row < " + width + "; ++row) {");
    line("const index " + axis_name(slow) + " = first" + number(slow) + " + block * " + width + " + row;");
    line("read" + i + "[row]" +
         (words ? ".read_words(" + pack_place(load) + ");" : ".read(" + pack_place(load) + ", " + width + ");"));
    while (depth_ > outside + 1) close();
  }
  line("#pragma unroll");
  open("for (int j = 0; j < " + width + "; ++j) {");
  line(pack_type(load) + " turned;");
  line("#pragma unroll");
  line("for (int row = 0; row < " + width + "; ++row) turned.element[row] = read" + i + "[row].element[j];");
  line("kept" + i + "[pack * " + width + " + j][block ^ pack] = turned;");
  while (depth_ > outside) close();
}

std::string DevicePacks::in_tile(int i) const {
  const auto& over = nest_.local(i)->over;
  const std::string row = axis_name(over[0].axis) + " - first" + number(over[0].axis), width = number(team_.width);
  return "kept" + number(i) + "[" + row + "][(begin - first" + number(over[1].axis) + ") / " + width + " ^ (" + row +
         ") / " + width + "]";
}

std::string DevicePacks::pack_type(int i) const {
  return std::string("Pack<") + memory_type(at(i).dtype) + ", " + number(team_.width) + ">";
}

std::string DevicePacks::pack_place(int i) const {
  const Dim axis = dims::axis(pack_axis_, pack_extent());
  if (loop::is_reversed(kernel_, analysis_, i)) return place(at(i).buffer, at(i).index + axis) + " - begin";
  return place(at(i).buffer, at(i).index - axis) + " + begin";
}

std::string DevicePacks::read_pack(int i) const {
  const int predicate = at(i).kind == Kind::load ? at(i).args[0] : -1;
  if (lies_apart()) return ".read_apart(" + pack_place(i) + ", n);";
  if (loop::is_reversed(kernel_, analysis_, i)) return ".read_backwards(" + pack_place(i) + ", n);";
  return (predicate < 0 ? ".read(" : ".read_where(" + v(predicate) + ".value, ") + pack_place(i) + ", n);";
}

std::string DevicePacks::read_whole_pack(int i) const {
  return lies_apart() ? ".read_apart(" + pack_place(i) + ", " + number(team_.width) + ");"
                      : ".read_words(" + pack_place(i) + ");";
}

void DevicePacks::ask_whether_words(const std::vector<int>& loads, const std::vector<int>& stores) {
  std::string places;
  for (const std::vector<int>* moved : {&loads, &stores})
    for (const int i : *moved) places += (places.empty() ? "" : ", ") + pack_place(i);
  line("const bool words = n == " + number(team_.width) +
       (lies_apart() ? ";" : " && at_words<" + number(team_.width) + ">(" + places + ");"));
}

std::string DevicePacks::numbers_among(const std::vector<Statement>& body) const {
  std::string among;
  for (const Statement& it : body) {
    if (it.kind != Statement::Kind::value || at(it.instruction).kind != Kind::apply ||
        !compares_position(at(it.instruction)) || facts(at(it.instruction).args[0]).vector)
      continue;
    const std::string pack = pack_compared(at(it.instruction));
    if (pack.empty()) continue;
    among += (among.empty() ? "" : " || ") + concat_text("is_among<", team_.width, ">(", pack, ")");
  }
  return among;
}

bool DevicePacks::is_ahead() const { return !analysis_.carried.empty(); }

void DevicePacks::packs_in_shared_memory() {
  Dim words = 0;
  for (const loop::Local& local : nest_.locals) {
    if (!local.fetched) continue;
    const int i = local.instruction;
    line(pack_type(i) + "* const shared" + number(i) + " = shared_packs<" + pack_type(i) + ">(" + text_of(words) +
         ");");
    words = words + (is_ahead() ? Dim(2 * team_.turns * team_.members) : positions()) * Dim(pack_bytes(i)) / Dim(16);
  }
}

std::string DevicePacks::in_shared(int i, bool next) const {
  const std::string name = "shared" + number(i);
  if (!is_ahead()) return name + "[position]";
  return name + "[" + axis_name(analysis_.carried[0]) + (next ? " + 1 & 1" : " & 1") + " ? position + " +
         number(team_.turns * team_.members) + " : position]";
}

void DevicePacks::fetch(int i) {
  const bool next = inside_ == Inside::turn_of_rows;
  Dim index = expressions_.access(at(i).index).rest;
  std::string to = "shared" + number(i) + "[position]";
  if (is_ahead()) {
    const int carried = analysis_.carried[0];
    const Dim axis = dims::axis(carried, extent(carried));
    index = dims::substitute(index, [&](const DimNode* atom) {
      return Dim::from_node(atom).same(axis) ? (next ? axis + Dim(1) : Dim(0)) : Dim::from_node(atom);
    });
    if (next) to = in_shared(i, true);
    if (next) line("if (" + axis_name(carried) + " + 1 < " + text_of(extent(carried)) + ")");
  }
  open_positions();
  open_pack();
  line(to + ".fetch(" + place(at(i).buffer, index) + " + begin, n);");
  close();
}

}  // namespace weft::codegen
