// One function a kernel: pointers and sizes, what depends on no axis, then the loops of its nest. Every value is 16
// lanes wide, the uniform ones too, and bears its number in the loop IR, so that `explain` and the source can be read
// side by side.
#include "codegen/cpp.hpp"

#include <algorithm>
#include <map>

#include "base/fail.hpp"
#include "codegen/cpp_writer.hpp"
#include "loop/product_nest.hpp"

namespace weft::codegen {

using loop::Instruction;
using loop::Kernel;
using loop::Kind;
using loop::LoopAxis;
using loop::ReductionKind;
using loop::Role;
using loop::State;
using loop::Statement;

namespace {

class Generator : Writer {
 public:
  using Writer::Writer;

  // The kernel's function; the one for long rows precedes it, where there is one.
  std::string run() {
    if (!nest_.of_long_rows) return function("WEFT_KERNEL void " + function_name(), "");
    const std::string name = function_name() + "_of_long_rows";
    return Generator(kernel_, *nest_.of_long_rows).function("static void " + name, "") + "\n" +
           function("WEFT_KERNEL void " + function_name(), name);
  }

 private:
  std::string function(const std::string& head, const std::string& for_long_rows) {
    masked_ = all_contiguous();
    open_function(head, for_long_rows);
    write(nest_.body);
    return finish();
  }

  void write(const std::vector<Statement>& block) {
    for (const Statement& it : block) {
      if (it.kind == Statement::Kind::loop) prepare_pointers(it);
      write(it);
    }
  }

  void write(const Statement& it) {
    const int i = it.instruction;
    switch (it.kind) {
      case Statement::Kind::loop: return write_loop(it);
      case Statement::Kind::value: return at(i).kind == Kind::scan ? scan(i) : statement(i);
      case Statement::Kind::store: return statement(i);
      case Statement::Kind::reload: return declare(i, load(at(it.from).index, at(it.from).buffer));
      case Statement::Kind::recall:
        return declare(i, facts(i).vector ? "load(" + kept(i) + ", n)" : "load_one(" + kept(i) + ")");
      case Statement::Kind::keep:
        if (product_ >= 0)
          return line((facts(i).vector ? "store(" : "store_one(") + in_panel(i) + ", " + value_name(i) + ");");
        return line(facts(i).vector ? "store(" + kept(i) + ", " + value_name(i) + ", n);"
                                    : "store_one(" + kept(i) + ", " + value_name(i) + ");");
      case Statement::Kind::start: line(declaration(i)); return begin_scan(i);
      case Statement::Kind::clear:
        line(reduction(i) + (state(i) == State::columns ? ".clear();" : " = {};"));
        return begin_scan(i);
      case Statement::Kind::open:
        return line("auto " + reduction(i) + "_lanes = " + reduction(i) + ".open(" + column() + ");");
      case Statement::Kind::accumulate: return accumulate(i);
      case Statement::Kind::put:
        return line(reduction(i) + ".keep(" + column() + ", " + reduction(i) + "_lanes" +
                    (at(i).is(ReductionKind::over_carried) ? ", n);" : ");"));
      case Statement::Kind::close:
        return line(reduction(i) + (state(i) == State::columns ? ".close(" + columns() + ");" : ".close();"));
      case Statement::Kind::result: return declare(i, to_result(i, result(i)));
      case Statement::Kind::multiply: return multiply(i);
      case Statement::Kind::ask: return line("if (*" + buffer_name(kernel_.predicate) + " != 0) return;");
      case Statement::Kind::join:
      case Statement::Kind::barrier:
      case Statement::Kind::fetch:
      case Statement::Kind::arrive: return;
    }
  }

  // ---- loops ----

  struct Range {
    std::string begin, end;
  };
  // The turns of an axis that a loop walks here: all, or those of the piece that a loop around it has cut.
  Range range(int axis) const {
    const auto found = ranges_.find(axis);
    return found != ranges_.end() ? found->second : Range{"0", extent_text(axis)};
  }

  void write_loop(const Statement& it) {
    const std::map<int, Range> outside = ranges_;
    const std::size_t depth_outside = depth();
    switch (it.role) {
      case Role::lanes: open_lanes(); break;
      case Role::serial: it.axes.back().piece > 1 ? open_pieces(it.axes) : open_serial(it.axes); break;
      default:
        const bool tiles = !it.axes.empty() && it.axes.back().axis != kernel_.vector_axis && it.axes.back().piece > 1;
        tiles ? open_tiles(it.axes) : open_units(it.axes);
    }
    write(it.body);
    while (depth() > depth_outside) close();
    ranges_ = outside;
  }

  // What the walked axes have in common where they are walked as one: the first axis takes the place of all.
  std::string flat_extent(const std::vector<LoopAxis>& axes) const {
    Dim count = 1;
    for (const LoopAxis& each : axes) count = count * extent(each.axis);
    return expressions_.scalar(count);
  }
  static std::vector<int> plain(const std::vector<LoopAxis>& axes) {
    std::vector<int> all;
    for (const LoopAxis& each : axes) all.push_back(each.axis);
    return all;
  }

  void open_serial(const std::vector<LoopAxis>& axes) {
    const bool flat = axes.size() > 1;
    const std::string i = flat ? "row" : axis_name(axes[0].axis);
    const auto found = ranges_.find(axes[0].axis);
    const Range walked = found != ranges_.end() ? found->second : Range{"0", flat_extent(axes)};
    open("for (long " + i + " = " + walked.begin + "; " + i + " < " + walked.end + "; ++" + i + ") {");
    if (flat) name_axes(plain(axes), i);
    know(plain(axes));
  }

  void open_pieces(const std::vector<LoopAxis>& axes) {
    const auto found = ranges_.find(axes[0].axis);
    const bool inside = found != ranges_.end();
    const Range whole = inside ? found->second : Range{"0", flat_extent(axes)};
    const bool lanes = axes[0].axis == kernel_.vector_axis;
    const std::string piece = std::to_string(axes.back().piece);
    const std::string name = product_ >= 0                  ? "chunk"
                             : !lanes                       ? axes.back().piece == column_chunk ? "chunk" : "group"
                             : analysis_.form == Form::rows ? "chunk"
                                                            : "strip";
    open("for (long " + name + " = " + whole.begin + "; " + name + " < " + whole.end + "; " + name + " += " + piece +
         ") {");
    line("const long " + name + "_end = lesser(" + name + " + " + piece + ", " + whole.end + ");");
    ranges_[axes[0].axis] = {name, name + "_end"};
  }

  // Opens the loop over units and names their axes. Where the vector axis is cut into blocks, `first` and `last` are
  // the unit's part of it.
  void open_units(const std::vector<LoopAxis>& axes) {
    const bool in_blocks = !axes.empty() && axes.back().axis == kernel_.vector_axis;
    std::vector<int> outer = plain(axes);
    if (in_blocks) outer.pop_back();
    const std::string whole = extent_text(kernel_.vector_axis);
    const std::int64_t block = in_blocks ? axes.back().piece : 0;
    const std::string cut = std::to_string(block);
    std::string row = "unit";
    if (outer.empty() && in_blocks) {
      line("const long first = begin * " + cut + ", last = lesser(end * " + cut + ", " + whole + ");");
    } else if (in_blocks) {
      open("for (long unit = begin; unit < end; ++unit) {");
      line("const long blocks = (" + whole + " + " + std::to_string(block - 1) + ") / " + cut + ";");
      line("const long first = unit % blocks * " + cut + ", last = lesser(first + " + cut + ", " + whole + ");");
      row = "unit / blocks";
      if (outer.size() > 1) {
        line("const long row = unit / blocks;");
        row = "row";
      }
    } else if (outer.size() == 1) {
      const std::string i = axis_name(outer[0]);
      open("for (long " + i + " = begin; " + i + " < end; ++" + i + ") {");
      row.clear();
    } else if (!outer.empty()) {
      open("for (long unit = begin; unit < end; ++unit) {");
    }
    if (in_blocks) ranges_[kernel_.vector_axis] = {"first", "last"};
    if (!row.empty()) name_axes(outer, row);
    know(outer);
  }

  // The same where the last axis is taken in pieces: as many neighbouring units at a time, which are its rows.
  void open_tiles(const std::vector<LoopAxis>& axes) {
    const int row = axes.back().axis;
    std::vector<int> others = plain(axes);
    others.pop_back();
    const bool in_blocks = !others.empty() && others.back() == kernel_.vector_axis;
    const std::string rows = divisor(extent(row)), last = extent_text(kernel_.vector_axis);
    open("for (long tile = begin, tile_end; tile < end; tile = tile_end) {");
    line("const long above = tile / " + rows + ", base = above * " + rows + ";");
    line("tile_end = lesser(lesser(tile + " + std::to_string(axes.back().piece) + ", base + " + rows + "), end);");
    std::string rest = "above";
    if (in_blocks) {
      others.pop_back();
      const std::int64_t block = axes[axes.size() - 2].piece;
      const std::string cut = std::to_string(block);
      line("const long blocks = (" + last + " + " + std::to_string(block - 1) + ") / " + cut + ";");
      line("const long first = above % blocks * " + cut + ", last = lesser(first + " + cut + ", " + last + ");");
      ranges_[kernel_.vector_axis] = {"first", "last"};
      rest = "(above / blocks)";
    }
    name_axes(others, rest);
    know(others);
    ranges_[row] = {"tile - base", "tile_end - base"};
  }

  // Whether masks serve all memory that is read and written on the lanes.
  bool all_contiguous() const {
    for (int i = 0; i < size(); ++i) {
      const Instruction& it = at(i);
      if ((it.kind != Kind::load && it.kind != Kind::store) || !facts(i).vector) continue;
      if (expressions_.access(it.index).kind != Access::Kind::contiguous || info(it.dtype).bits < 32) return false;
    }
    return std::none_of(nest_.locals.begin(), nest_.locals.end(),
                        [&](const loop::Local& local) { return at(local.instruction).dtype == DType::boolean; });
  }

  void open_lanes() {
    const int vector = kernel_.vector_axis;
    const Range walked = range(vector);
    const Dim size = extent(vector);
    const char* loop = masked_ ? "for_masked_lanes" : "for_lanes";
    if ((size % Dim(16)).same(Dim(0)))
      loop = "for_whole_lanes";
    else if (dims::proves_less(size, Dim(16)))
      loop = "for_few_lanes";
    open(std::string(loop) + "(" + walked.begin + ", " + walked.end + ", [&](long " + axis_name(vector) +
             ", auto n) WEFT_BODY {",
         "});");
  }

  // ---- reductions ----

  static const char* reduction_name(Op op) { return info(op).name; }
  State state(int i) const { return nest_.states[static_cast<std::size_t>(i)]; }
  std::string reduction(int i) const { return reduction_name(at(i).op) + std::to_string(i); }
  std::string accumulated(int i) const {
    const DType operand = at(at(i).args[0]).dtype;
    const bool adds = (at(i).op == Op::sum || at(i).op == Op::prod) && !at(i).is(ReductionKind::product);
    return adds && !is_floating(operand) ? "long" : element_type(operand);
  }

  // The type that holds a reduction's state, and its name. A strip has so many columns; a row of states has one for
  // each element.
  std::string declaration(int i) const {
    const bool argmax = at(i).op == Op::argmax;
    if (at(i).kind == Kind::scan) {
      const bool columns = state(i) == State::columns;
      return std::string(state(i) == State::row ? "row"
                         : columns              ? "column"
                                                : "lanes") +
             "_scan<" + reduction_name(at(i).op) + "_operation, " + accumulated(i) +
             (columns ? ", " + std::to_string(loop::column_block) : "") + "> " + reduction(i) + ";";
    }
    const char* kind = nullptr;
    switch (state(i)) {
      case State::row:
        if (at(i).is(ReductionKind::online)) return "online_row<" + accumulated(i) + "> " + reduction(i) + ";";
        kind = argmax ? "row_argmax" : at(i).is(ReductionKind::join) ? "joined_row" : "row_reduction";
        break;
      case State::packed: kind = "packed_row_reduction"; break;
      case State::narrow: kind = "narrow_reduction"; break;
      case State::lanes:
        kind = argmax                               ? "argmax_lanes"
               : at(i).is(ReductionKind::join)      ? "joined_lanes"
               : at(i).is(ReductionKind::short_row) ? "short_row_lanes"
                                                    : "column_lanes";
        break;
      case State::columns:
        kind = argmax                                  ? "column_argmax"
               : at(i).is(ReductionKind::join)         ? "joined_columns"
               : at(i).is(ReductionKind::over_carried) ? "column_chunk"
                                                       : "column_reduction";
        break;
      case State::tile:
        return "product_tile<" + accumulated(i) + ", " + std::to_string(loop::host_tile.rows) + ", " +
               std::to_string(loop::host_tile.columns) + ", " + std::to_string(loop::host_tile.depth) + "> " +
               reduction(i) + ";";
      case State::none: break;
    }
    std::string arguments = (argmax ? "" : std::string(reduction_name(at(i).op)) + "_operation, ") + accumulated(i);
    if (state(i) == State::narrow) arguments += ", " + extent_text(analysis_.narrow);
    if (at(i).is(ReductionKind::short_row)) arguments += ", " + expressions_.scalar(kernel_.inner_count());
    if (state(i) == State::columns)
      arguments += ", " + (at(i).is(ReductionKind::over_carried) ? expressions_.scalar(kernel_.inner_count())
                                                                 : std::to_string(loop::column_block));
    return std::string(kind) + "<" + arguments + "> " + reduction(i) + ";";
  }
  // Where the columns of these lanes are among those of the state, and how many columns it has here.
  std::string column() const {
    if (analysis_.form == Form::rows) {
      std::vector<LoopAxis> inner;
      for (const int axis : analysis_.inner) inner.push_back({axis});
      inner.push_back({kernel_.vector_axis});
      return expressions_.scalar(position(inner));
    }
    return axis_name(kernel_.vector_axis) + " - " + range(kernel_.vector_axis).begin;
  }
  std::string columns() const {
    const Range strip = range(kernel_.vector_axis);
    return strip.end + " - " + strip.begin;
  }

  // The operand of a reduction or a scan, as it is added.
  std::string operand(int i) const {
    const int from = at(i).args[0];
    if (at(from).dtype != DType::boolean && accumulated(i) == element_type(at(from).dtype)) return value_name(from);
    return "convert<" + accumulated(i) + ">(" + value_name(from) + ")";
  }
  // The host cuts no scans: this serves trials of a device's stages, whose columns are few rows.
  void begin_scan(int i) {
    const int start = at(i).kind == Kind::scan ? at(i).args[1] : -1;
    if (start < 0) return;
    WEFT_CHECK(state(i) != State::columns, kernel_.name, ": a strip's scan starts from nothing");
    const std::string from = value_name(start);
    line(reduction(i) + ".total = " + (state(i) == State::row ? "first_lane(" + from + ");" : from + ";"));
  }
  void scan(int i) {
    const std::string held = reduction(i) + (state(i) == State::columns ? "_lanes" : "");
    declare(i, to_result(i, held + ".add(" + operand(i) + (state(i) == State::row ? ", n)" : ")")));
  }
  void accumulate(int i) {
    std::string x = operand(i);
    if (at(i).is(ReductionKind::online) && at(i).args[2] >= 0) x += ", " + value_name(at(i).args[2]);
    if (at(i).op == Op::argmax) x += ", " + expressions_.on_lanes(at(i).index);
    const bool in_row = state(i) == State::row || state(i) == State::packed || state(i) == State::narrow;
    line(reduction(i) + (state(i) == State::columns ? "_lanes" : "") + ".add(" + x + (in_row ? ", n" : "") + ");");
  }

  std::string result(int i) const {
    const std::string held = reduction(i);
    switch (state(i)) {
      case State::tile: return held + ".result(" + from_first(row_) + ", " + from_first(kernel_.vector_axis) + ")";
      case State::lanes:
        return held + ".result" + (at(i).is(ReductionKind::join) || at(i).is(ReductionKind::short_row) ? "()" : "");
      case State::columns: return held + ".result(" + column() + ")";
      case State::narrow: return held + ".result(" + axis_name(analysis_.narrow) + ")";
      default: break;
    }
    return "lanes<" + result_type(i) + ">(" + held + (at(i).op == Op::argmax ? ".position()" : ".result") + ")";
  }
  std::string result_type(int i) const { return at(i).op == Op::argmax ? "long" : accumulated(i); }
  std::string to_result(int i, const std::string& lanes) const {
    if (result_type(i) == element_type(at(i).dtype) && at(i).dtype != DType::boolean) return lanes;
    if (at(i).dtype == DType::boolean) return "convert<bool>(" + lanes + ")";
    return std::string("convert<") + element_type(at(i).dtype) + ">(" + lanes + ")";
  }

  // ---- products ----

  // An axis's offset in the tile, and how much of it the tile has.
  std::string from_first(int axis) const {
    const std::string first = range(axis).begin;
    return axis_name(axis) + " - " + (first.find(' ') == std::string::npos ? first : "(" + first + ")");
  }
  std::string in_tile(int axis) const {
    const Range part = range(axis);
    const std::string first = part.begin.find(' ') == std::string::npos ? part.begin : "(" + part.begin + ")";
    return first == "0" ? part.end : part.end + " - " + first;
  }
  // A panel of columns has 16 of them side by side, for all of its depth; one of rows has each row whole.
  std::string in_panel(int i) const {
    const int inner = nest_.local(i)->over[0].axis, other = nest_.local(i)->over[1].axis;
    return "kept" + std::to_string(i) + " + (" + from_first(other) + ") * " + std::to_string(loop::host_tile.depth) +
           " + (" + from_first(inner) + ")" + (facts(i).vector ? " * 16" : "");
  }
  void multiply(int i) {
    const auto panel = [&](int side) { return "kept" + std::to_string(at(i).args[side]); };
    line(reduction(i) + ".add(" + panel(0) + ", " + panel(1) + ", " + in_tile(row_) + ", " +
         in_tile(kernel_.vector_axis) + ", " + in_tile(nest_.locals[0].over[0].axis) + ");");
  }

  // ---- local memory ----

  // The number of a point among those of some axes.
  Dim position(const std::vector<LoopAxis>& axes) const {
    Dim at = 0;
    for (const LoopAxis& each : axes) at = at * extent(each.axis) + dims::axis(each.axis, extent(each.axis));
    return at;
  }
  std::string kept(int i) const {
    return "kept" + std::to_string(i) + " + " + expressions_.scalar(position(nest_.local(i)->over));
  }

  const int product_ = loop::product_in(kernel_), row_ = product_ < 0 ? -1 : loop::product_rows(kernel_, analysis_);
  std::map<int, Range> ranges_;
  bool masked_ = false;
};

}  // namespace

std::string generate_cpp(const Kernel& kernel) { return Generator(kernel, loop::host_nest(kernel)).run(); }

}  // namespace weft::codegen
