#include "codegen/cuda_reads_ahead.hpp"

#include <algorithm>

namespace weft::codegen {

using loop::Kind;

bool DeviceReadsAhead::begins_early() const {
  return std::ranges::all_of(team_.ahead > 0 ? ahead_ : later_,
                             [&](int i) { return kernel_.buffers[std::size_t(at(i).buffer)].steady; });
}

std::string DeviceReadsAhead::packs_of(const char* name, int load) const {
  return pack_type(load) + " " + name + number(load) + "[" + number(team_.ahead) + "]";
}

std::string DeviceReadsAhead::asked(const std::string& row, const std::string& first, const char* name) const {
  std::string call = "ask(" + row + ", " + first;
  for (const int i : ahead_) call += ", " + std::string(name) + number(i);
  return call + ");";
}

void DeviceReadsAhead::open_turn_ahead() {
  line("#pragma unroll");
  open("for (int turn = 0; turn < " + number(team_.ahead) + "; ++turn) {");
  line("const index position = first + turn * " + number(team_.members) + ";");
  enter_position();
}

void DeviceReadsAhead::ask_for_first_packs() {
  count_rows();
  std::vector<int> buffers;
  for (int i = 0; i < size(); ++i)
    if (at(i).kind == Kind::load && facts(i).inner && std::ranges::find(buffers, at(i).buffer) == buffers.end())
      buffers.push_back(at(i).buffer);
  std::string begins, packs;
  for (const int buffer : buffers) begins += (begins.empty() ? "" : ", ") + buffer_name(buffer);
  for (const int i : ahead_) packs += ", " + pack_type(i) + " (&next" + number(i) + ")[" + number(team_.ahead) + "]";
  line("const bool words = begin_at_words(" + begins + ");");
  open("const auto ask = [&](index row, index first" + packs + ") {");
  name_axes(analysis_.outer, "row");
  open_turn_ahead();
  line("const index begin = " + pack_begin() + ";");
  for (const int i : ahead_) line("next" + number(i) + "[turn].read_words_once(" + pack_place(i) + ");");
  close();
  --depth_;
  line("};");
  for (const int i : ahead_) line(packs_of("now", i) + ";");
  line("const index first_row = " + first_row() + ", rows_on = " + rows_on() + ";");
  line("if (words && first_row < rows) " + asked("first_row", "member", "now"));
}

void DeviceReadsAhead::ask_for_later_packs() {
  count_rows();
  for (const int i : later_) line(pack_type(i) + " later" + number(i) + "[" + number(team_.turns) + "];");
  const Inside outside = inside_;
  const int depth_outside = depth_;
  inside_ = Inside::turn;
  open_positions();
  open_pack();
  for (const int i : later_) line("later" + number(i) + "[turn]" + read_pack(i));
  while (depth_ > depth_outside) close();
  inside_ = outside;
}

void DeviceReadsAhead::ask_for_row() {
  const Inside outside = inside_;
  const int depth_outside = depth_;
  std::string begins;
  for (const int i : row_) {
    line(pack_type(i) + " all" + number(i) + "[" + number(team_.turns) + "];");
    begins += (begins.empty() ? "" : ", ") + buffer_name(at(i).buffer);
  }
  for (const bool words : {true, false}) {
    open(words ? "if (at_words<" + number(team_.width) + ">(" + begins + ")) {" : "else {");
    inside_ = Inside::turn;
    open_positions();
    open_pack();
    for (const int i : row_)
      line("all" + number(i) + "[turn]" + (words ? ".read_words(" + pack_place(i) + ");" : read_pack(i)));
    while (depth_ > depth_outside) close();
    inside_ = outside;
  }
}

}  // namespace weft::codegen
