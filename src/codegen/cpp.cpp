// One function a kernel: pointers and sizes, what depends on no axis, then a loop over the units in which each walk
// over the inner axes is one loop over lanes. Every value is 16 lanes wide, the uniform ones too, and bears its number
// in the loop IR, so that `explain` and the source can be read side by side.
#include "codegen/cpp.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/seeded_bug.hpp"
#include "codegen/cpp_writer.hpp"

namespace weft::codegen {

using loop::Instruction;
using loop::Kernel;
using loop::Kind;

namespace {

class Generator : Writer {
 public:
  using Writer::Writer;

  std::string run() {
    masked_ = all_contiguous();
    open_function();
    level(0, 0);
    if (reads_across_rows()) {
      pointwise_by_tiles();
    } else {
      open_units();
      switch (analysis_.form) {
        case Form::pointwise: pointwise(); break;
        case Form::rows: rows(); break;
        case Form::columns: analysis_.single_pass ? columns_at_once() : columns_by_strips(); break;
      }
    }
    return finish();
  }

 private:
  // What stands outside of the walks and off the lanes: level 0 depends on no axis, 1 on the unit and on reductions.
  void level(int which, int phase) {
    for (int i = 0; i < size(); ++i) {
      const Facts& f = facts(i);
      const bool once = f.axes == 0 && f.phase == 0;
      if (f.inner || f.vector || f.phase != phase || once != (which == 0)) continue;
      at(i).kind == Kind::reduce ? row_result(i) : statement(i);
    }
    prepare_pointers(phase, false);
  }

  // ---- units ----

  // Opens the loop over units and names the outer axes; `first_` and `last_` are then the range of the vector axis.
  void open_units() {
    if (kernel_.vector_axis < 0) return;
    const std::int64_t block = loop::block_of(kernel_);
    const std::string whole = extent_text(kernel_.vector_axis), cut = std::to_string(block);
    const Dim size = extent(kernel_.vector_axis);
    const bool in_blocks = analysis_.form != Form::rows && !(size.is_constant() && size.constant() <= block);
    first_ = "0";
    last_ = whole;
    std::string row = "unit";
    if (analysis_.outer.empty() && in_blocks) {
      first_ = "first";
      last_ = "last";
      line("const long first = begin * " + cut + ", last = lesser(end * " + cut + ", " + whole + ");");
    } else if (in_blocks) {
      open("for (long unit = begin; unit < end; ++unit) {");
      line("const long blocks = (" + whole + " + " + std::to_string(block - 1) + ") / " + cut + ";");
      line("const long first = unit % blocks * " + cut + ", last = lesser(first + " + cut + ", " + whole + ");");
      first_ = "first";
      last_ = "last";
      row = "unit / blocks";
      if (analysis_.outer.size() > 1) {
        line("const long row = unit / blocks;");
        row = "row";
      }
    } else if (analysis_.outer.size() == 1) {
      const std::string i = axis_name(analysis_.outer[0]);
      open("for (long " + i + " = begin; " + i + " < end; ++" + i + ") {");
      row.clear();
    } else if (!analysis_.outer.empty()) {
      open("for (long unit = begin; unit < end; ++unit) {");
    }
    if (!row.empty()) name_axes(analysis_.outer, row);
    know(analysis_.outer);
    level(1, 0);
  }

  // ---- loops over lanes ----

  // Whether masks serve all memory that is read and written on the lanes.
  bool all_contiguous() const {
    for (int i = 0; i < size(); ++i) {
      const Instruction& it = at(i);
      if ((it.kind != Kind::load && it.kind != Kind::store) || !facts(i).vector) continue;
      if (expressions_.access(it.index).kind != Access::Kind::contiguous || info(it.dtype).bits < 32) return false;
    }
    return std::none_of(analysis_.kept.begin(), analysis_.kept.end(),
                        [&](int i) { return at(i).dtype == DType::boolean; });
  }

  void open_lanes(const std::string& begin, const std::string& end) {
    const Dim size = extent(kernel_.vector_axis);
    const char* loop = masked_ ? "for_masked_lanes" : "for_lanes";
    if (size.is_constant())
      loop = size.constant() % 16 == 0 ? "for_whole_lanes" : size.constant() < 16 ? "for_few_lanes" : loop;
    const std::string stop = seeded(SeededBug::tail_dropped) ? "(" + end + ") / 16 * 16" : end;
    open(std::string(loop) + "(" + begin + ", " + stop + ", [&](long " + axis_name(kernel_.vector_axis) +
             ", auto n) WEFT_BODY {",
         "});");
  }

  // Vector values outside of the walks, at their phase; stores last, after everything that reads what they overwrite.
  void lanes_level(int phase) {
    for (const bool stores : {false, true})
      for (int i = 0; i < size(); ++i) {
        const Facts& f = facts(i);
        if (f.inner || !f.vector || f.phase != phase || (at(i).kind == Kind::store) != stores) continue;
        at(i).kind == Kind::reduce ? column_result(i, "") : statement(i);
      }
  }

  void pointwise() {
    if (kernel_.vector_axis < 0) return;
    open_lanes(first_, last_);
    lanes_level(0);
    close();
  }

  // Whether the lanes stride over memory that the rows walk closely, as in a transposed operand: then a cache line
  // serves neighbouring rows, and not the next vector of the same row.
  bool reads_across_rows() const {
    if (analysis_.form != Form::pointwise || analysis_.outer.empty()) return false;
    const int row = analysis_.outer.back();
    for (int i = 0; i < size(); ++i) {
      const Instruction& it = at(i);
      if ((it.kind != Kind::load && it.kind != Kind::store) || !facts(i).vector) continue;
      const Access access = expressions_.access(it.index);
      const dims::Linear along = dims::linear_in(it.index, dims::axis(row, extent(row)));
      if (access.kind != Access::Kind::strided || !along.linear || !along.coefficient.is_constant()) continue;
      const std::int64_t step = std::abs(along.coefficient.constant());
      if (step > 0 && step <= 8 && (!access.stride.is_constant() || std::abs(access.stride.constant()) > 2 * step))
        return true;
    }
    return false;
  }

  // 16 rows at a time, vector by vector. A unit is a row within a block, so that neighbouring units are neighbouring
  // rows.
  void pointwise_by_tiles() {
    const int row = analysis_.outer.back();
    const std::vector<int> others(analysis_.outer.begin(), analysis_.outer.end() - 1);
    const std::string i = axis_name(row), rows = divisor(extent(row)), cut = std::to_string(loop::block);
    const Dim size = extent(kernel_.vector_axis);
    const bool in_blocks = !(size.is_constant() && size.constant() <= loop::block);
    std::string first = "0", last = extent_text(kernel_.vector_axis);
    open("for (long tile = begin, tile_end; tile < end; tile = tile_end) {");
    line("const long above = tile / " + rows + ", base = above * " + rows + ";");
    line("tile_end = lesser(lesser(tile + 16, base + " + rows + "), end);");
    std::string rest = "above";
    if (in_blocks) {
      line("const long blocks = (" + last + " + " + std::to_string(loop::block - 1) + ") / " + cut + ";");
      line("const long first = above % blocks * " + cut + ", last = lesser(first + " + cut + ", " + last + ");");
      first = "first";
      last = "last";
      rest = "(above / blocks)";
    }
    name_axes(others, rest);
    know(analysis_.outer);
    open_lanes(first, last);
    open("for (long " + i + " = tile - base; " + i + " < tile_end - base; ++" + i + ") {");
    level(1, 0);
    lanes_level(0);
    close();
    close();
  }

  // ---- reductions ----

  static const char* reduction_name(Op op) {
    return op == Op::sum    ? "sum"
           : op == Op::prod ? "prod"
           : op == Op::amax ? "amax"
           : op == Op::amin ? "amin"
                            : "argmax";
  }
  std::string reduction(int i) const { return reduction_name(at(i).op) + std::to_string(i); }
  std::string accumulated(int i) const {
    const DType operand = at(at(i).args[0]).dtype;
    const bool adds = at(i).op == Op::sum || at(i).op == Op::prod;
    return adds && !is_floating(operand) ? "long" : element_type(operand);
  }
  // <sum_operation, float> or, for argmax, <float>; `more` follows.
  std::string template_arguments(int i, const std::string& more) const {
    const std::string operation = at(i).op == Op::argmax ? "" : std::string(reduction_name(at(i).op)) + "_operation, ";
    return "<" + operation + accumulated(i) + more + ">";
  }
  std::string declaration(int i, const char* walk, const std::string& more = "") const {
    const bool argmax = at(i).op == Op::argmax;
    const std::string kind = std::string(walk) == "lanes" ? (argmax ? "argmax_lanes" : "column_lanes")
                                                          : std::string(walk) + (argmax ? "_argmax" : "_reduction");
    return kind + template_arguments(i, more) + " " + reduction(i) + ";";
  }
  // `.add(x, ...)` of a reduction's state.
  void accumulate(int i, const std::string& state, bool counted) {
    const int operand = at(i).args[0];
    std::string x = value_name(operand);
    if (at(operand).dtype == DType::boolean || accumulated(i) != element_type(at(operand).dtype))
      x = "convert<" + accumulated(i) + ">(" + x + ")";
    if (at(i).op == Op::argmax) x += ", " + expressions_.on_lanes(at(i).index);
    line(state + ".add(" + x + (counted ? ", n" : "") + ");");
  }
  std::string result_type(int i) const { return at(i).op == Op::argmax ? "long" : accumulated(i); }
  std::string to_result(int i, const std::string& lanes) const {
    if (result_type(i) == element_type(at(i).dtype) && at(i).dtype != DType::boolean) return lanes;
    if (at(i).dtype == DType::boolean) return "convert<bool>(" + lanes + ")";
    return std::string("convert<") + element_type(at(i).dtype) + ">(" + lanes + ")";
  }
  void row_result(int i) {
    const std::string result = at(i).op == Op::argmax ? reduction(i) + ".position()" : reduction(i) + ".result";
    declare(i, to_result(i, "lanes<" + result_type(i) + ">(" + result + ")"));
  }
  void column_result(int i, const std::string& where) { declare(i, to_result(i, reduction(i) + ".result" + where)); }
  std::vector<int> reductions_of(int phase) const {
    std::vector<int> found;
    for (const Step& step : analysis_.walks[static_cast<std::size_t>(phase)])
      if (at(step.instruction).kind == Kind::reduce) found.push_back(step.instruction);
    return found;
  }

  // One step of a walk. Stores come last, after everything that reads what they overwrite.
  void step(const Step& it) {
    const int i = it.instruction;
    switch (it.how) {
      case Step::How::reload: return declare(i, load(at(it.from).index, at(it.from).buffer));
      case Step::How::recall:
        return declare(i, facts(i).vector ? "load(" + kept(i) + ", n)" : "load_one(" + kept(i) + ")");
      case Step::How::compute:
      case Step::How::keep: statement(i);
    }
    if (it.how == Step::How::keep)
      line(facts(i).vector ? "store(" + kept(i) + ", " + value_name(i) + ", n);"
                           : "store_one(" + kept(i) + ", " + value_name(i) + ");");
  }
  // Where a kept value lies in its buffer: by the loops around it, which all are if it differs from lane to lane.
  std::string kept(int i) const {
    Dim position = 0;
    const auto count = static_cast<std::size_t>(loop_of(i));
    for (std::size_t d = 0; d < count; ++d)
      position = position * extent(analysis_.inner[d]) + dims::axis(analysis_.inner[d], extent(analysis_.inner[d]));
    const int vector = kernel_.vector_axis;
    if (facts(i).vector) position = position * extent(vector) + dims::axis(vector, extent(vector));
    return "kept" + std::to_string(i) + " + " + expressions_.scalar(position);
  }
  // How many of the loops over inner axes a step stands in: those down to the last axis that it depends on.
  int loop_of(int i) const {
    if (facts(i).vector) return static_cast<int>(analysis_.inner.size());
    for (std::size_t d = analysis_.inner.size(); d-- > 0;)
      if (facts(i).axes >> analysis_.inner[d] & 1) return static_cast<int>(d) + 1;
    return 0;
  }
  // Steps that stand in `loop` of the inner loops (any: -1), on the lanes or not.
  void steps(int phase, int loop, bool on_lanes) {
    for (const bool stores : {false, true})
      for (const Step& it : analysis_.walks[static_cast<std::size_t>(phase)]) {
        const int i = it.instruction;
        if (at(i).kind == Kind::reduce || (at(i).kind == Kind::store) != stores) continue;
        if (facts(i).vector == on_lanes && (loop < 0 || loop_of(i) == loop)) step(it);
      }
  }

  // ---- rows ----

  void rows() {
    for (int phase = 0; phase < analysis_.phases; ++phase) {
      walk_row(phase);
      level(1, phase + 1);
    }
  }

  // Whether the order of additions shows: then a row of several runs is packed, so that its tree is that of one run.
  bool rounds(int i) const {
    return (at(i).op == Op::sum || at(i).op == Op::prod) && is_floating(at(at(i).args[0]).dtype);
  }

  void walk_row(int phase) {
    if (analysis_.walks[static_cast<std::size_t>(phase)].empty()) return;
    const std::vector<int> reductions = reductions_of(phase);
    const bool single_run = analysis_.inner.empty();
    std::string close_all;
    for (const int i : reductions) {
      line(declaration(i, !single_run && rounds(i) && !seeded(SeededBug::runs_not_packed) ? "packed_row" : "row"));
      if (at(i).op != Op::argmax) close_all += (close_all.empty() ? "" : " ") + reduction(i) + ".close();";
    }
    const Dim run = extent(kernel_.vector_axis);
    const std::size_t outside = depth();
    for (std::size_t d = 0; d < analysis_.inner.size(); ++d) {
      const std::string i = axis_name(analysis_.inner[d]);
      open("for (long " + i + " = 0; " + i + " < " + extent_text(analysis_.inner[d]) + "; ++" + i + ") {");
      know(analysis_.inner[d]);
      steps(phase, static_cast<int>(d) + 1, false);
    }
    if (!single_run) prepare_pointers(phase, true);
    const bool one_chunk = run.is_constant() && run.constant() <= 4096;
    const bool chunks = single_run && !close_all.empty() && !one_chunk;
    std::string begin = "0", end = extent_text(kernel_.vector_axis);
    if (chunks) {
      open("for (long chunk = 0; chunk < " + end + "; chunk += reduce_row_chunk) {");
      line("const long stop = lesser(chunk + reduce_row_chunk, " + end + ");");
      begin = "chunk";
      end = "stop";
    }
    open_lanes(begin, end);
    steps(phase, -1, true);
    for (const int i : reductions) accumulate(i, reduction(i), true);
    close();
    if (chunks) line(close_all);
    while (depth() > outside) close();
    const bool dropped = !single_run && seeded(SeededBug::rest_of_reduction_dropped);
    if (!close_all.empty() && !chunks && !dropped) line(close_all);
  }

  // ---- columns ----

  // Few rows: 16 columns are walked from the first row to the last, with everything in registers.
  void columns_at_once() {
    open_lanes(first_, last_);
    lanes_level(0);
    for (int phase = 0; phase < analysis_.phases; ++phase) {
      const std::vector<int> reductions = reductions_of(phase);
      for (const int i : reductions) line(declaration(i, "lanes"));
      const std::size_t outside = depth();
      for (std::size_t d = 0; d < analysis_.inner.size(); ++d) {
        const std::string i = axis_name(analysis_.inner[d]);
        open("for (long " + i + " = 0; " + i + " < " + extent_text(analysis_.inner[d]) + "; ++" + i + ") {");
        know(analysis_.inner[d]);
      }
      steps(phase, -1, false);
      steps(phase, -1, true);
      for (const int i : reductions) accumulate(i, reduction(i), false);
      while (depth() > outside) close();
      lanes_level(phase + 1);
    }
    close();
  }

  // Many rows: strips of columns whose accumulators lie in the first-level cache, 8 rows at a time, so that memory is
  // read in long runs.
  void columns_by_strips() {
    const std::string width = std::to_string(loop::column_block);
    const std::string whole = expressions_.scalar(kernel_.inner_count());
    for (int phase = 0; phase < analysis_.phases; ++phase)
      for (const int i : reductions_of(phase)) line(declaration(i, "column", ", " + width));
    open("for (long strip = " + first_ + "; strip < " + last_ + "; strip += " + width + ") {");
    line("const long stop = lesser(strip + " + width + ", " + last_ + ");");
    for (int phase = 0; phase <= analysis_.phases; ++phase) {
      lanes_stores(phase);
      if (phase < analysis_.phases && !analysis_.walks[static_cast<std::size_t>(phase)].empty())
        walk_strip(phase, whole);
    }
    close();
  }

  void walk_strip(int phase, const std::string& whole) {
    const std::vector<int> reductions = reductions_of(phase);
    const bool flat = analysis_.inner.size() != 1;
    const std::string row = flat ? "row" : axis_name(analysis_.inner[0]);
    for (const int i : reductions)
      if (!seeded(SeededBug::strip_keeps_totals)) line(reduction(i) + ".clear();");
    open("for (long group = 0; group < " + whole + "; group += 8) {");
    line("const long group_end = lesser(group + 8, " + whole + ");");
    open_lanes("strip", "stop");
    lanes_operands(phase);
    const std::string place = "(" + axis_name(kernel_.vector_axis) + " - strip";
    for (const int i : reductions) line("auto " + reduction(i) + "_lanes = " + reduction(i) + ".open" + place + ");");
    open("for (long " + row + " = group; " + row + " < group_end; ++" + row + ") {");
    if (flat) name_axes(analysis_.inner, row);
    steps(phase, -1, false);
    steps(phase, -1, true);
    for (const int i : reductions) accumulate(i, reduction(i) + "_lanes", false);
    close();
    for (const int i : reductions) line(reduction(i) + ".keep" + place + ", " + reduction(i) + "_lanes);");
    close();
    std::string close_all;
    for (const int i : reductions) close_all += " " + reduction(i) + ".close(stop - strip);";
    if (!reductions.empty())
      line("if (group_end % reduce_column_chunk == 0 || group_end == " + whole + ") {" + close_all + " }");
    close();
  }

  // The vector values outside of the walks that these instructions read, computed again in each loop over lanes.
  void lanes_closure(std::vector<bool> needed) {
    const auto need = [&](const Instruction& it) {
      for (const std::int32_t arg : it.args)
        if (arg >= 0) needed[static_cast<std::size_t>(arg)] = true;
      for (const int value : values_in(it.index)) needed[static_cast<std::size_t>(value)] = true;
    };
    std::vector<int> order;
    for (int i = size() - 1; i >= 0; --i) {
      if (!needed[static_cast<std::size_t>(i)] || facts(i).inner || !facts(i).vector) continue;
      order.push_back(i);
      if (at(i).kind != Kind::reduce) need(at(i));
    }
    std::reverse(order.begin(), order.end());
    for (const int i : order) {
      if (at(i).kind == Kind::reduce)
        column_result(i, "(" + axis_name(kernel_.vector_axis) + " - strip)");
      else
        statement(i);
    }
  }
  void lanes_operands(int phase) {
    std::vector<bool> needed(kernel_.body.size(), false);
    for (const Step& it : analysis_.walks[static_cast<std::size_t>(phase)]) {
      if (it.how != Step::How::compute) continue;
      for (const std::int32_t arg : at(it.instruction).args)
        if (arg >= 0) needed[static_cast<std::size_t>(arg)] = true;
      for (const int value : values_in(at(it.instruction).index)) needed[static_cast<std::size_t>(value)] = true;
    }
    lanes_closure(needed);
  }
  void lanes_stores(int phase) {
    std::vector<bool> needed(kernel_.body.size(), false);
    bool any = false;
    for (int i = 0; i < size(); ++i)
      if (at(i).kind == Kind::store && !facts(i).inner && facts(i).vector && facts(i).phase == phase)
        needed[static_cast<std::size_t>(i)] = any = true;
    if (!any) return;
    open_lanes("strip", "stop");
    lanes_closure(needed);
    close();
  }

  std::string first_, last_;  // of the vector axis, in this unit
  bool masked_ = false;
};

}  // namespace

std::string generate_cpp(const Kernel& kernel) { return Generator(kernel).run(); }

}  // namespace weft::codegen
