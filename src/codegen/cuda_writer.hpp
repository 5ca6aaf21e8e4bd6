// The writing of one kernel's function for a device: indented lines, names, its head, and the text of an instruction.
// In: a kernel and its loops. Out: text. Who derives from it opens the loops (cuda_loops.hpp) and
// writes what is in them (cuda.cpp).
//
// Values bear their numbers in the loop IR (v7, and k7 as an index), axes too (i0), as in the C++ for the host, so that
// the two and the loop IR can be read side by side.
#pragma once
#include <string>
#include <vector>

#include "codegen/cpp_expression.hpp"
#include "loop/device_team.hpp"
#include "loop/nest.hpp"

namespace weft::codegen {

class DeviceWriter {
 public:
  DeviceWriter(const loop::Kernel& kernel, std::size_t sets);
  DeviceWriter(const DeviceWriter&) = delete;
  DeviceWriter& operator=(const DeviceWriter&) = delete;

 protected:
  // ---- text ----
  void line(const std::string& text) { text_.append(static_cast<std::size_t>(depth_) * 2, ' ').append(text) += '\n'; }
  void open(const std::string& text);
  void close();

  // ---- names and sizes ----
  const loop::Instruction& at(int i) const { return kernel_.body[static_cast<std::size_t>(i)]; }
  const Facts& facts(int i) const { return analysis_.facts[static_cast<std::size_t>(i)]; }
  int size() const { return static_cast<int>(kernel_.body.size()); }
  Dim extent(int axis) const { return kernel_.axes[static_cast<std::size_t>(axis)].extent; }
  std::string text_of(Dim dim) const { return expressions_.scalar(dim); }
  static std::string axis_name(int axis) { return "i" + std::to_string(axis); }
  std::string vector_name() const { return axis_name(kernel_.vector_axis); }
  std::string pack_axis_name() const { return axis_name(pack_axis_); }
  Dim pack_extent() const { return extent(pack_axis_); }
  Dim vector_extent() const { return extent(kernel_.vector_axis); }
  std::string buffer_name(int buffer) const;
  std::string block() const { return sets_ > 1 ? "block" : "blockIdx.x"; }
  std::string blocks() const { return sets_ > 1 ? "blocks" : "gridDim.x"; }
  static std::string v(int i) { return "v" + std::to_string(i); }
  static std::string number(std::int64_t n) { return std::to_string(n); }
  Dim product(const std::vector<int>& axes) const { return loop::extent_of(kernel_, axes); }
  // Whether a load or store moves neighbours on the axis of packs.
  bool in_pack(int i) const;
  // A load where a predicate that differs from lane to lane is the same for all of a pack: of parts that are joined,
  // say.
  bool in_pack_where(int i) const;
  // Where rows begin at no word, a pack's elements lie a warp apart: the lanes of a warp then read and write
  // neighbours.
  bool lies_apart() const { return lies_apart_; }
  // Packs of a row.
  Dim positions() const { return product(analysis_.inner) * loop::divide_up(vector_extent(), team_.width); }
  // All packs are full.
  bool whole() const {
    return team_.width == 1 || (pack_extent() % Dim(team_.width * (lies_apart() ? warp : 1))).same(Dim(0));
  }
  void find_index_values();

  // ---- the head of the function ----
  void comments();
  void addresses();

  // ---- single instructions ----
  std::string place(int buffer, Dim index) const;
  // What an instruction computes, rounded to its dtype: values of 16-bit floats are float.
  std::string value(int i) const;
  // Whether that takes a conversion. What is stored and not read is rounded by the store.
  bool rounds(int i) const;
  std::string unrounded(const loop::Instruction& it) const;
  // Whether a number is this position (a label, say): of 64 bits, but once for a row it is seen whether it has more
  // than the position's 32.
  bool compares_position(const loop::Instruction& it) const;
  std::string position_compared(const loop::Instruction& it) const;
  // The number that is compared and the first position of the pack; empty where one position is compared, not a pack.
  std::string pack_compared(const loop::Instruction& it) const;
  // Whether the elements of a pack are divided by one number, whose reciprocal then is found once (Divisor of
  // cuda.inc).
  bool divides_many(const loop::Instruction& it) const;
  // What a store writes: of a value that is rounded to what lies in memory, the one before, as stores round.
  int stored(int store) const;
  static std::string value_type(DType dtype);
  void declare(int i, const std::string& right);
  // The axes of a flat count, the last one fastest.
  void name_axes(const std::vector<int>& axes, const std::string& flat);

  enum class Inside : std::uint8_t { function, unit, turn_of_rows, turn, element };

  const loop::Kernel& kernel_;
  const std::size_t sets_;
  const loop::Nest nest_;
  const Analysis& analysis_;
  const loop::Team& team_;
  const Expressions expressions_;
  std::vector<bool> index_values_;
  Inside inside_ = Inside::function;
  bool among_none_ = false;      // no number that is compared with positions is one of this pack's
  bool divides_nearly_ = false;  // quotients that are not surely exact are told, and found again
  static constexpr int warp = 32;
  const bool lies_apart_ = loop::begins_at_no_word(kernel_, analysis_, team_);
  int pack_axis_ = kernel_.vector_axis;  // along which packs lie here: the lanes, but where a tile is turned
  std::string text_;
  int depth_ = 0;
};

}  // namespace weft::codegen
