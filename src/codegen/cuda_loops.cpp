#include "codegen/cuda_loops.hpp"

#include <algorithm>
#include <utility>

#include "loop/product_nest.hpp"

namespace weft::codegen {

using loop::LoopAxis;
using loop::Scope;
using loop::Statement;

namespace {

std::vector<int> axes_of(const Statement& loop) {
  std::vector<int> axes;
  for (const LoopAxis& each : loop.axes) axes.push_back(each.axis);
  return axes;
}

}  // namespace

void DeviceLoops::open_serial(const Statement& it) {
  const std::vector<int> axes = axes_of(it);
  if (const std::int64_t piece = it.axes.back().piece; piece > 1) {
    const std::string first = "first" + number(axes[0]);
    return open("for (index " + first + " = 0; " + first + " < " + text_of(extent(axes[0])) + "; " + first +
                " += " + number(piece) + ") {");
  }
  const std::string i = axes.size() == 1 ? axis_name(axes[0]) : "carried";
  open("for (index " + i + " = 0; " + i + " < " + text_of(product(axes)) + "; ++" + i + ") {");
  if (axes.size() > 1) name_axes(axes, i);
}

void DeviceLoops::open_grid() {
  inside_ = Inside::unit;
  switch (analysis_.form) {
    case Form::pointwise: return team_.tile > 0 ? open_grid_of_tiles() : open_grid_of_packs();
    case Form::rows: return open_grid_of_rows();
    case Form::columns: return team_.tile > 0 ? open_grid_of_tiles() : open_grid_of_columns();
  }
}

void DeviceLoops::open_grid_of_packs() {
  const Dim chunks = lies_apart() ? loop::divide_up(vector_extent(), team_.width * warp) * Dim(warp)
                                  : loop::divide_up(vector_extent(), team_.width);
  const Dim units = product(analysis_.outer) * chunks;
  const std::string threads = number(team_.threads);
  const bool flat = analysis_.outer.empty();
  line("const index units = " + text_of(units) + ";");
  if (!flat) line("const index chunks = " + text_of(chunks) + ";");
  open("for (index unit = index(" + block() + ") * " + threads + " + index(threadIdx.x); unit < units; unit += index(" +
       blocks() + ") * " + threads + ") {");
  if (!flat) {
    line("const index row = unit / chunks;");
    name_axes(analysis_.outer, "row");
  }
  enter_pack(flat ? "unit" : "unit % chunks");
  blocks_ = loop::divide_up(units, team_.threads);
}

// A tile is a point of the other axes and a piece of each of its two.
void DeviceLoops::open_grid_of_tiles() {
  const int row = team_.across, column = kernel_.vector_axis;
  const Dim down = loop::divide_up(extent(row), team_.tile), along = loop::divide_up(extent(column), team_.tile);
  std::vector<int> others = analysis_.outer;
  std::erase(others, row);
  const std::string size = number(team_.tile);
  for (const loop::Local& local : nest_.locals)
    if (team_.in_blocks)
      line(std::string("__shared__ Pack<") + memory_type(at(local.instruction).dtype) + ", " + number(team_.width) +
           "> kept" + number(local.instruction) + "[" + size + "][" + number(team_.tile / team_.width) + "];");
    else
      line(std::string("__shared__ ") + memory_type(at(local.instruction).dtype) + " kept" + number(local.instruction) +
           "[" + number(local.over[0].piece) + "][" + number(local.over[1].piece + 1) + "];");
  const Dim units = product(others) * down * along;
  line("const index units = " + text_of(units) + ", down = " + text_of(down) + ", along = " + text_of(along) + ";");
  open("for (index unit = " + block() + "; unit < units; unit += " + blocks() + ") {");
  line("const index first" + number(column) + " = unit % along * " + size + ", first" + number(row) +
       " = unit / along % down * " + size + ";");
  name_axes(others, "(unit / along / down)");
  blocks_ = units;
}

// The packs of a tile, which lie along the second of its axes here.
void DeviceLoops::open_team_of_tile(const Statement& it) {
  inside_ = Inside::turn;
  const int slow = it.axes[0].axis, fast = it.axes[1].axis, packs = team_.tile / team_.width;
  const std::string width = number(team_.width), first = "first" + number(fast);
  const auto bound = [&](int axis, const std::string& at) {
    if (!(extent(axis) % Dim(team_.tile)).same(Dim(0)))
      line("if (" + at + " >= " + text_of(extent(axis)) + ") continue;");
  };
  line("#pragma unroll");
  open("for (int turn = 0; turn < " + number(team_.tile * packs / team_.threads) + "; ++turn) {");
  line("const int point = threadIdx.x + turn * " + number(team_.threads) + ";");
  line("const index " + axis_name(slow) + " = first" + number(slow) + " + point / " + number(packs) + ";");
  line("const index pack = " + first + (team_.width == 1 ? "" : " / " + width) + " + point % " + number(packs) + ";");
  bound(slow, axis_name(slow));
  bound(fast, team_.width == 1 ? "pack" : "pack * " + width);
  enter_pack("pack");
}

int DeviceLoops::kept_in(const Statement& loop) {
  return loop.body.back().kind == Statement::Kind::keep ? loop.body.back().instruction : -1;
}

// The points of a product's panel. Those beyond an axis's end add nothing.
void DeviceLoops::open_team_of_panel(const Statement& it) {
  inside_ = Inside::turn;
  const LoopAxis slow = it.axes[0], fast = it.axes[1];
  line("#pragma unroll");
  open("for (int turn = 0; turn < " + number(slow.piece * fast.piece / team_.threads) + "; ++turn) {");
  line("const int point = threadIdx.x + turn * " + number(team_.threads) + ";");
  const auto place = [&](const LoopAxis& each, const char* which) {
    return axis_name(each.axis) + " = first" + number(each.axis) + " + point " + which + " " + number(fast.piece);
  };
  line("const index " + place(slow, "/") + ", " + place(fast, "%") + ";");
  std::string beyond;
  for (const LoopAxis& each : {slow, fast})
    if (!(extent(each.axis) % Dim(each.piece)).same(Dim(0)))
      beyond += (beyond.empty() ? "" : " || ") + axis_name(each.axis) + " >= " + text_of(extent(each.axis));
  if (beyond.empty()) return;
  open("if (" + beyond + ") {");
  line(kept(kept_in(it)) + " = {};");
  line("continue;");
  close();
}

// The sums that are this thread's: every 16th row and column of the tile.
void DeviceLoops::open_team_of_sums(const Statement& it) {
  inside_ = Inside::turn;
  const int row = it.axes[0].axis, column = it.axes[1].axis;
  line("#pragma unroll");
  open("for (int turn = 0; turn < 16; ++turn) {");
  line("const index " + axis_name(row) + " = first" + number(row) + " + threadIdx.x / 16 + turn / 4 * 16, " +
       axis_name(column) + " = first" + number(column) + " + threadIdx.x % 16 + turn % 4 * 16;");
  for (const int axis : {row, column})
    if (!(extent(axis) % Dim(team_.tile)).same(Dim(0)))
      line("if (" + axis_name(axis) + " >= " + text_of(extent(axis)) + ") continue;");
}

std::string DeviceLoops::first_row() const {
  if (teams() == 1) return block();
  return "index(" + block() + ") * " + number(teams()) + " + index(threadIdx.x) / " + number(team_.members);
}

std::string DeviceLoops::rows_on() const {
  return "index(" + blocks() + ")" + (teams() > 1 ? " * " + number(teams()) : std::string());
}

void DeviceLoops::count_rows() {
  if (std::exchange(counts_rows_, true)) return;
  line("const int member = threadIdx.x" + (teams() > 1 ? " % " + number(team_.members) : std::string()) + ";");
  line("const index rows = " + text_of(product(analysis_.outer)) + ", positions = " + text_of(positions()) + ";");
}

void DeviceLoops::open_grid_of_rows() {
  count_rows();
  const bool named = team_.ahead > 0;
  open("for (index row = " + (named ? "first_row" : first_row()) +
       "; row < rows; row += " + (named ? "rows_on" : rows_on()) + ") {");
  name_axes(analysis_.outer, "row");
  for (const loop::Local& local : nest_.locals)
    if (const int i = local.instruction; local.scope == Scope::registers)
      line(value_type(at(i).dtype) + " kept" + number(i) + "[" + number(team_.held > 0 ? team_.held : team_.turns) +
           "][" + number(facts(i).vector ? team_.width : 1) + "];");
  blocks_ = loop::divide_up(product(analysis_.outer), teams());
}

void DeviceLoops::open_grid_of_columns() {
  const std::string width = number(team_.columns), lanes = number(team_.columns / team_.width);
  const Dim chunks = loop::divide_up(vector_extent(), team_.columns), units = product(analysis_.outer) * chunks;
  const bool packed = team_.width > 1;
  line("const int member = threadIdx.x / " + lanes + ";");
  line("const index units = " + text_of(units) + ", chunks = " + text_of(chunks) +
       ", rows = " + text_of(kernel_.inner_count()) + ";");
  open("for (index unit = " + block() + "; unit < units; unit += " + blocks() + ") {");
  name_axes(analysis_.outer, "unit / chunks");
  line("const index column = unit % chunks * " + width + " + index(threadIdx.x)" +
       (packed ? ";" : " % " + width + ";"));
  line("const bool active = column < " + text_of(vector_extent()) + ";");
  if (packed)
    line("const index pack = lesser<index>(unit % chunks * " + lanes + " + index(threadIdx.x) % " + lanes + ", " +
         text_of(loop::divide_up(vector_extent(), team_.width) - Dim(1)) + ");");
  line("const index " + vector_name() + " = active ? column : " + text_of(vector_extent() - Dim(1)) + ";");
  blocks_ = units;
}

void DeviceLoops::open_team() {
  inside_ = Inside::turn;
  const std::string members = number(team_.members);
  if (analysis_.form == Form::columns) {
    if (team_.width == 1) {
      constexpr std::int64_t rows_on_their_way = 8;
      if ((kernel_.inner_count() % Dim(team_.members * rows_on_their_way)).same(Dim(0)))
        line("#pragma unroll " + number(rows_on_their_way));
      open("for (index position = member; position < rows; position += " + members + ") {");
      return name_axes(analysis_.inner, "position");
    }
    open("for (index first = member; first < rows; first += " + number(team_.members * team_.turns) + ") {");
    line("#pragma unroll");
    open("for (int turn = 0; turn < " + number(team_.turns) + "; ++turn) {");
    line("const index position = first + turn * " + members + ";");
    name_axes(analysis_.inner, "position");
    return enter_pack("pack");
  }
  open_positions(team_.held);
}

void DeviceLoops::open_held() {
  inside_ = Inside::turn;
  line("#pragma unroll");
  open("for (int turn = 0; turn < " + number(team_.held) + "; ++turn) {");
  line("const index position = member + turn * " + number(team_.members) + ";");
  enter_position();
}

void DeviceLoops::open_positions(std::int64_t first_turn) {
  const std::string members = number(team_.members);
  const bool full = (positions() % Dim(team_.members)).same(Dim(0));
  if (team_.turns > 0) {
    line("#pragma unroll");
    open("for (int turn = 0; turn < " + number(team_.turns) + "; ++turn) {");
    line("const index " + std::string(scans_ && !full ? "turned" : "position") + " = member + turn * " + members + ";");
    if (!full && !scans_) line("if (position >= positions) continue;");
  } else if (scans_) {
    open("for (index first = 0; first < positions; first += " + members + ") {");
    line("const index " + std::string(full ? "position" : "turned") + " = first + member;");
  } else {
    const std::string first = first_turn > 0 ? " + " + number(first_turn * team_.members) : "";
    open("for (index position = member" + first + "; position < positions; position += " + members + ") {");
  }
  // All threads take part in a scan: those beyond the row's end are at its last pack, and have none of its
  // elements.
  all_exist_ = !scans_ || full;
  if (!all_exist_) line("const index position = lesser<index>(turned, positions - 1);");
  enter_position();
}

void DeviceLoops::enter_position() {
  enter_pack("position");
  if (analysis_.inner.empty()) return;
  line("const index chunks = " + text_of(loop::divide_up(vector_extent(), team_.width)) + ", run = position / chunks;");
  name_axes(analysis_.inner, "run");
  enter_pack("position % chunks");
}

void DeviceLoops::enter_pack(std::string number) {
  pack_ = std::move(number);
  pack_is_open_ = false;
  packs_.clear();
}

std::string DeviceLoops::pack_begin() const {
  if (lies_apart())
    return "(" + pack_ + ") / " + number(warp) + " * " + number(warp * team_.width) + " + (" + pack_ + ") % " +
           number(warp);
  return (pack_.find(' ') == std::string::npos ? pack_ : "(" + pack_ + ")") + " * " + number(team_.width);
}

void DeviceLoops::open_pack() {
  if (team_.width == 1) {
    line("const index " + pack_axis_name() + " = " + pack_ + ";");
    if (!all_exist_) line("const bool exists = turned < positions;");
    return;
  }
  line("const index begin = " + pack_begin() + ";");
  if (!all_exist_)
    line("const int n = turned < positions ? int(lesser<index>(" + number(team_.width) + ", " + text_of(pack_extent()) +
         " - begin)) : 0;");
  else if (whole())
    line("constexpr int n = " + number(team_.width) + ";");
  else if (lies_apart())
    line("const int n = int(lesser<index>(" + number(team_.width) + ", (" + text_of(pack_extent()) + " - begin + " +
         number(warp - 1) + ") / " + number(warp) + "));");
  else
    line("const int n = int(lesser<index>(" + number(team_.width) + ", " + text_of(pack_extent()) + " - begin));");
}

void DeviceLoops::open_elements(bool asks_each) {
  if (team_.width == 1) return open(all_exist_ ? "{" : "if (exists) {");
  line("#pragma unroll");
  open("for (int j = 0; j < " + number(team_.width) + "; ++j) {");
  if (asks_each && (!whole() || !all_exist_)) line("if (j >= n) continue;");
  line("const index " + pack_axis_name() + " = begin + j" + (lies_apart() ? " * " + number(warp) : std::string()) +
       ";");
}

std::vector<int> DeviceLoops::moved_together(const std::vector<Statement>& body, Statement::Kind kind) const {
  std::vector<int> moved;
  if (analysis_.form != Form::pointwise) return moved;
  for (const Statement& it : body)
    if (it.kind == kind && in_pack(it.instruction) &&
        (kind == Statement::Kind::store || at(it.instruction).args[0] < 0))
      moved.push_back(it.instruction);
  return moved;
}

bool DeviceLoops::moves_packs_alone(const std::vector<Statement>& body) const {
  return analysis_.form == Form::pointwise && std::ranges::all_of(body, [&](const Statement& it) {
           const loop::Kind kind = at(it.instruction).kind;
           return (it.kind == Statement::Kind::value || it.kind == Statement::Kind::store) &&
                  ((kind != loop::Kind::load && kind != loop::Kind::store) || in_pack(it.instruction));
         });
}

bool DeviceLoops::reads_tile(const Statement& it) {
  if (team_.tile == 0 || loop::product_in(kernel_) >= 0 || it.body.size() != 1 || it.body[0].role != loop::Role::lanes)
    return false;
  constexpr std::int64_t most_bytes = 128;
  const int outside = std::exchange(pack_axis_, it.body[0].axes[0].axis);
  std::int64_t bytes = 0;
  const bool reads = std::ranges::all_of(it.body[0].body, [&](const Statement& each) {
    if (each.kind == Statement::Kind::keep) return true;
    const int i = each.instruction;
    bytes += turns_of_tile() * pack_bytes(i);
    return each.kind == Statement::Kind::value && at(i).kind == loop::Kind::load && in_pack(i) && whole() &&
           std::ranges::all_of(dims::terms(at(i).index - dims::axis(pack_axis_, pack_extent())),
                               [&](const DimTerm& term) { return term.coefficient % team_.width == 0; });
  });
  pack_axis_ = outside;
  return reads && bytes > 0 && bytes <= most_bytes;
}

bool DeviceLoops::strides() const {
  if (analysis_.form == Form::rows) return !analysis_.carried.empty() || team_.ahead > 0;
  if (lies_apart()) return false;
  if (analysis_.form != Form::pointwise || !analysis_.outer.empty()) return true;
  constexpr double operations_a_byte = 3.5;
  double operations = 0, bytes = 0;
  for (int i = 0; i < size(); ++i) {
    if (!facts(i).vector) continue;
    const bool moves = at(i).kind == loop::Kind::load || at(i).kind == loop::Kind::store;
    (moves ? bytes : operations) += moves ? static_cast<double>(storage_bytes(at(i).dtype, 1)) : loop::weight(at(i));
  }
  return operations > operations_a_byte * bytes;
}

std::string DeviceLoops::element(bool vector) const {
  return std::string("[turn][") + (vector && team_.width > 1 ? "j" : "0") + "]";
}

std::string DeviceLoops::kept(int i) const {
  if (team_.tile == 0) return "kept" + number(i) + element(facts(i).vector);
  std::string place = "kept" + number(i);
  for (const LoopAxis& each : nest_.local(i)->over)
    place += "[" + axis_name(each.axis) + " - first" + number(each.axis) + "]";
  return place;
}

}  // namespace weft::codegen
