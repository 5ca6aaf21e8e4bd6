// One function a kernel. Values bear their numbers in the loop IR (v7, and k7 as an index), axes too (i0), as in the
// C++ for the host, so that the two and the loop IR can be read side by side.
#include "codegen/cuda.hpp"

#include <algorithm>
#include <set>

#include "base/fail.hpp"
#include "codegen/cuda_shape.hpp"

namespace weft::codegen {

using loop::Instruction;
using loop::Kernel;
using loop::Kind;

namespace {

std::string v(int i) { return "v" + std::to_string(i); }

std::string value_type(DType dtype) {
  switch (dtype) {
    case DType::boolean: return "Mask";
    case DType::u8:
    case DType::i32:
    case DType::i64: return std::string("Integer<") + memory_type(dtype) + ">";
    default: return element_type(dtype);
  }
}

class Generator {
 public:
  explicit Generator(const Kernel& kernel)
      : kernel_(kernel),
        analysis_(analyze(kernel, {0, 0, false})),
        expressions_(kernel_, analysis_),
        shape_(choose_cuda_shape(kernel_, analysis_, expressions_)) {}

  CudaKernel run() {
    find_index_values();
    comments();
    const std::size_t buffers = std::max<std::size_t>(kernel_.buffers.size(), 1);
    const std::size_t sizes = std::max<std::size_t>(kernel_.parameters.size(), 1);
    open("extern \"C\" __global__ void __launch_bounds__(" + std::to_string(shape_.threads) + ") " + kernel_.name +
         "(const __grid_constant__ Arguments<" + std::to_string(buffers) + ", " + std::to_string(sizes) +
         "> arguments) {");
    line(std::string("using index = ") + (fits_32_bits(kernel_) ? "int;" : "long;"));
    addresses();
    once();
    CudaKernel result;
    result.threads = shape_.threads;
    switch (analysis_.form) {
      case Form::pointwise: result.blocks = pointwise(); break;
      case Form::rows: result.blocks = rows(); break;
      case Form::columns: result.blocks = columns(); break;
    }
    while (depth_ > 0) close();
    result.text = std::move(text_);
    return result;
  }

 private:
  // ---- text
  // -----------------------------------------------------------------------------------------------------------
  void line(const std::string& text) { text_.append(static_cast<std::size_t>(depth_) * 2, ' ').append(text) += '\n'; }
  void open(const std::string& text) {
    line(text);
    ++depth_;
  }
  void close() {
    --depth_;
    line("}");
  }

  const Instruction& at(int i) const { return kernel_.body[static_cast<std::size_t>(i)]; }
  const Facts& facts(int i) const { return analysis_.facts[static_cast<std::size_t>(i)]; }
  int size() const { return static_cast<int>(kernel_.body.size()); }
  Dim extent(int axis) const { return kernel_.axes[static_cast<std::size_t>(axis)].extent; }
  std::string text_of(Dim dim) const { return expressions_.scalar(dim); }
  static std::string axis_name(int axis) { return "i" + std::to_string(axis); }
  std::string vector_name() const { return axis_name(kernel_.vector_axis); }
  Dim vector_extent() const { return extent(kernel_.vector_axis); }
  std::string buffer_name(int buffer) const {
    return (kernel_.buffers[static_cast<std::size_t>(buffer)].written ? "y" : "x") + std::to_string(buffer);
  }
  static std::string number(std::int64_t n) { return std::to_string(n); }
  Dim product(const std::vector<int>& axes) const { return extent_of(kernel_, axes); }

  // ---- decisions
  // ------------------------------------------------------------------------------------------------------
  bool in_pack(int i) const { return shape_.width > 1 && is_contiguous_access(kernel_, analysis_, expressions_, i); }

  // Packs of a row.
  Dim positions() const { return product(analysis_.inner) * divide_up(vector_extent(), shape_.width); }
  // All packs are full.
  bool whole() const { return shape_.width == 1 || (vector_extent() % Dim(shape_.width)).same(Dim(0)); }

  void find_index_values() {
    index_values_.resize(kernel_.body.size());
    for (const Instruction& instruction : kernel_.body)
      for (const int value : values_in(instruction.index)) index_values_[static_cast<std::size_t>(value)] = true;
    for (const Instruction& instruction : kernel_.body)
      loads_outside_ |=
          instruction.kind == Kind::load && !facts(static_cast<int>(&instruction - kernel_.body.data())).inner;
  }

  // ---- the head of the function
  // -----------------------------------------------------------------------------------------
  void comments() {
    for (const std::string& comment : kernel_.comments) line("// " + sanitize(comment));
    std::string axes = "//";
    for (int a = 0; a < static_cast<int>(kernel_.axes.size()); ++a) {
      axes += (a ? ", " : " ") + axis_name(a) + " < " + text_of(extent(a));
      if (kernel_.axes[static_cast<std::size_t>(a)].inner) axes += " inner";
      if (a == kernel_.vector_axis) axes += " on neighbouring threads";
    }
    line(kernel_.axes.empty() ? "// one element" : axes);
  }

  void addresses() {
    for (int b = 0; b < static_cast<int>(kernel_.buffers.size()); ++b) {
      const loop::Buffer& buffer = kernel_.buffers[static_cast<std::size_t>(b)];
      const std::string type = std::string(buffer.written ? "" : "const ") + memory_type(buffer.dtype) + "*";
      line(type + " const " + buffer_name(b) + " = static_cast<" + type + ">(arguments.buffers[" + number(b) + "]);");
    }
    std::set<int> symbols;
    const auto visit = [&](Dim dim) {
      dims::any_atom(dim, [&](const DimNode& node) {
        if (node.kind == DimKind::symbol) symbols.insert(node.number);
        return false;
      });
    };
    for (const loop::Axis& axis : kernel_.axes) visit(axis.extent);
    for (const Instruction& instruction : kernel_.body) visit(instruction.index);
    for (const int s : symbols) line("const index s" + number(s) + " = arguments.sizes[" + number(s) + "];");
  }

  // ---- single instructions
  // ------------------------------------------------------------------------------------------------
  std::string place(int buffer, Dim index) const {
    return buffer_name(buffer) + (index.same(Dim(0)) ? "" : " + (" + text_of(index) + ")");
  }

  std::string value(const Instruction& it) const {
    switch (it.kind) {
      case Kind::constant: return literal(it.dtype, it.bits);
      case Kind::index: return "long(" + text_of(it.index) + ")";
      case Kind::load: return "load(" + place(it.buffer, it.index) + ")";
      case Kind::apply: return spell(info(it.op).lanes, it.args);
      case Kind::cast:
        if (at(it.args[0]).dtype == it.dtype) return v(it.args[0]);
        return std::string("convert<") + memory_type(it.dtype) + ">(" + v(it.args[0]) + ")";
      case Kind::bitcast:
        return std::string("cast_bits<") + memory_type(it.dtype) + ", " + memory_type(at(it.args[0]).dtype) + ">(" +
               v(it.args[0]) + ")";
      case Kind::random_bits:
        return "random_bits(" + v(it.args[0]) + ", " + v(it.args[1]) + ", long(" + text_of(it.index) + "))";
      default: WEFT_CHECK(false, kernel_.name, ": no value");
    }
  }
  void declare(int i, const std::string& right) {
    line("const " + value_type(at(i).dtype) + " " + v(i) + " = " + right + ";");
    if (index_values_[static_cast<std::size_t>(i)]) line("const index k" + number(i) + " = index(" + v(i) + ".value);");
  }
  // A value or a store in place, element by element.
  void statement(int i, const std::string& condition = "") {
    const Instruction& it = at(i);
    if (it.kind == Kind::store)
      line(condition + "store(" + place(it.buffer, it.index) + ", " + v(it.args[0]) + ");");
    else if (it.kind == Kind::reduce)
      reduced(i);
    else
      declare(i, value(it));
  }

  // What depends on no axis and on no reduction.
  void once() {
    for (const bool stores : {false, true})
      for (int i = 0; i < size(); ++i)
        if (facts(i).axes == 0 && facts(i).phase == 0 && (at(i).kind == Kind::store) == stores)
          statement(i, "if (blockIdx.x == 0 && threadIdx.x == 0) ");
  }

  // The axes of a flat count, the last one fastest.
  void name_axes(const std::vector<int>& axes, const std::string& flat) {
    Dim below = 1;
    for (std::size_t i = axes.size(); i-- > 0;) {
      std::string text = below.same(Dim(1)) ? flat : flat + " / (" + text_of(below) + ")";
      if (i > 0) text += " % (" + text_of(extent(axes[i])) + ")";
      line("const index " + axis_name(axes[i]) + " = " + text + ";");
      below = below * extent(axes[i]);
    }
  }

  // ---- packs
  // ----------------------------------------------------------------------------------------------------------------
  std::string pack_type(int i) const {
    return std::string("Pack<") + memory_type(at(i).dtype) + ", " + number(shape_.width) + ">";
  }
  std::string pack_place(int i) const {
    const Access access = expressions_.access(at(i).index);
    return place(at(i).buffer, access.rest) + " + begin";
  }

  // `flat` counts the packs of the vector axis: where this one begins, and how many of its elements exist.
  void open_pack(const std::string& flat) {
    if (shape_.width == 1) {
      line("const index " + vector_name() + " = " + flat + ";");
      return;
    }
    line("const index begin = " + std::string(flat.find(' ') == std::string::npos ? flat : "(" + flat + ")") + " * " +
         number(shape_.width) + ";");
    if (whole())
      line("constexpr int n = " + number(shape_.width) + ";");
    else
      line("const int n = int(lesser<index>(" + number(shape_.width) + ", " + text_of(vector_extent()) + " - begin));");
  }
  void open_elements() {
    if (shape_.width == 1) {
      open("{");
      return;
    }
    line("#pragma unroll");
    open("for (int j = 0; j < " + number(shape_.width) + "; ++j) {");
    if (!whole()) line("if (j >= n) continue;");
    line("const index " + vector_name() + " = begin + j;");
  }

  // The instructions of a pack of neighbouring elements, in the order: what is the same for all of them, loads, each
  // element, stores. `steps` are in SSA order.
  void pack(const std::vector<Step>& steps) {
    for (const Step& it : steps)
      if (!facts(it.instruction).vector && at(it.instruction).kind != Kind::store &&
          at(it.instruction).kind != Kind::reduce)
        step(it);
    for (const Step& it : steps) {
      const int i = it.instruction, from = it.how == Step::How::reload ? it.from : i;
      const bool reads = it.how == Step::How::reload || (it.how != Step::How::recall && at(i).kind == Kind::load);
      if (!facts(i).vector || !in_pack(from)) continue;
      if (reads) line(pack_type(from) + " p" + number(i) + "; p" + number(i) + ".read(" + pack_place(from) + ", n);");
      if (at(i).kind == Kind::store) line(pack_type(i) + " q" + number(i) + ";");
    }
    open_elements();
    for (const Step& it : steps)
      if (facts(it.instruction).vector && at(it.instruction).kind != Kind::store &&
          at(it.instruction).kind != Kind::reduce)
        step(it);
    for (const Step& it : steps)
      if (at(it.instruction).kind == Kind::reduce) accumulate(it.instruction);
    for (const Step& it : steps) {
      const int i = it.instruction;
      if (at(i).kind != Kind::store || !facts(i).vector) continue;
      if (in_pack(i))
        line("q" + number(i) + ".set(j, " + v(at(i).args[0]) + ");");
      else
        statement(i);
    }
    close();
    for (const Step& it : steps) {
      const int i = it.instruction;
      if (at(i).kind == Kind::reduce) line(reduction(i) + ".close();");
      if (at(i).kind != Kind::store) continue;
      if (!facts(i).vector)
        statement(i);
      else if (in_pack(i))
        line("q" + number(i) + ".write(" + pack_place(i) + ", n);");
    }
  }
  void step(const Step& it) {
    const int i = it.instruction;
    const std::string kept = "kept" + number(i) + "[turn][" + (facts(i).vector && shape_.width > 1 ? "j" : "0") + "]";
    if (it.how == Step::How::recall) return declare(i, kept);
    const int from = it.how == Step::How::reload ? it.from : i;
    const bool reads = it.how == Step::How::reload || at(i).kind == Kind::load;
    if (reads && in_pack(from))
      declare(i, "p" + number(i) + ".get(j)");
    else if (reads)
      declare(i, "load(" + place(at(from).buffer, at(from).index) + ")");
    else
      declare(i, value(at(i)));
    if (it.how == Step::How::keep) line(kept + " = " + v(i) + ";");
  }

  // ---- pointwise
  // ------------------------------------------------------------------------------------------------------------
  Dim pointwise() {
    if (kernel_.vector_axis < 0) {
      shape_.threads = 1;
      return 1;
    }
    const Dim chunks = divide_up(vector_extent(), shape_.width), units = product(analysis_.outer) * chunks;
    const std::string threads = number(shape_.threads);
    const bool flat = analysis_.outer.empty();
    line("const index units = " + text_of(units) + ";");
    if (!flat) line("const index chunks = " + text_of(chunks) + ";");
    open("for (index unit = index(blockIdx.x) * " + threads +
         " + index(threadIdx.x); unit < units; unit += index(gridDim.x) * " + threads + ") {");
    if (!flat) {
      line("const index row = unit / chunks;");
      name_axes(analysis_.outer, "row");
    }
    open_pack(flat ? "unit" : "unit % chunks");
    std::vector<Step> steps;
    for (int i = 0; i < size(); ++i)
      if (facts(i).axes != 0) steps.push_back({Step::How::compute, i, -1});
    pack(steps);
    close();
    return divide_up(units, shape_.threads);
  }

  // ---- reductions
  // -----------------------------------------------------------------------------------------------------------
  static const char* operation(Op op) {
    return op == Op::sum ? "Sum" : op == Op::prod ? "Product" : op == Op::amax ? "Greatest" : "Least";
  }
  std::string reduction(int i) const { return "r" + number(i); }
  std::string accumulated(int i) const {
    const DType dtype = at(at(i).args[0]).dtype;
    return is_floating(dtype) ? element_type(dtype) : "long";
  }
  std::string reduction_type(int i) const {
    if (at(i).op == Op::argmax) return "ArgMax<" + accumulated(i) + ">";
    return std::string("Reduction<") + operation(at(i).op) + ", " + accumulated(i) + ">";
  }
  void accumulate(int i) {
    const int operand = at(i).args[0];
    std::string x = is_floating(at(operand).dtype) ? v(operand) : "long(" + v(operand) + ".value)";
    if (at(i).op == Op::argmax) x += ", long(" + text_of(at(i).index) + ")";
    line(reduction(i) + ".add(" + x + ");");
  }
  void reduced(int i) {
    const std::string team = analysis_.form == Form::rows
                                 ? "join_team<" + number(shape_.team) + ">("
                                 : "join_columns<" + number(shape_.columns) + ", " + number(shape_.team) + ">(";
    const std::string result = team + reduction(i) + ")";
    const bool is_long = at(i).op == Op::argmax || accumulated(i) == "long";
    declare(i,
            is_long ? std::string("convert<") + memory_type(at(i).dtype) + ">(Integer<long>(" + result + "))" : result);
  }

  // What stands outside of the walks at a phase. Stores come last: other members may still read what they overwrite.
  void level(int phase) {
    const auto here = [&](int i) {
      const Facts& f = facts(i);
      return !f.inner && f.phase == phase && !(f.axes == 0 && f.phase == 0);
    };
    for (int i = 0; i < size(); ++i)
      if (here(i) && at(i).kind != Kind::store) statement(i);
    bool first = true;
    for (int i = 0; i < size(); ++i) {
      if (!here(i) || at(i).kind != Kind::store) continue;
      if (first && loads_outside_) line(team_barrier());
      first = false;
      statement(i, analysis_.form == Form::columns ? "if (active && member == 0) " : "if (member == 0) ");
    }
  }
  std::string team_barrier() const {
    return analysis_.form == Form::rows && shape_.team <= 32 ? "__syncwarp(team_lanes<" + number(shape_.team) + ">());"
                                                             : "__syncthreads();";
  }
  void declare_reductions(int phase) {
    for (const Step& it : analysis_.walks[static_cast<std::size_t>(phase)])
      if (at(it.instruction).kind == Kind::reduce)
        line(reduction_type(it.instruction) + " " + reduction(it.instruction) + ";");
  }

  // ---- rows
  // -----------------------------------------------------------------------------------------------------------------
  Dim rows() {
    const int teams = shape_.threads / shape_.team;
    const Dim count = product(analysis_.outer);
    line("const int member = threadIdx.x" + (teams > 1 ? " % " + number(shape_.team) : std::string()) + ";");
    line("const index rows = " + text_of(count) + ", positions = " + text_of(positions()) + ";");
    const std::string first =
        teams > 1 ? "index(blockIdx.x) * " + number(teams) + " + index(threadIdx.x) / " + number(shape_.team)
                  : "blockIdx.x";
    open("for (index row = " + first + "; row < rows; row += index(gridDim.x)" +
         (teams > 1 ? " * " + number(teams) : "") + ") {");
    name_axes(analysis_.outer, "row");
    for (const int i : analysis_.kept)
      line(value_type(at(i).dtype) + " kept" + number(i) + "[" + number(shape_.turns) + "][" +
           number(facts(i).vector ? shape_.width : 1) + "];");
    level(0);
    for (int phase = 0; phase < analysis_.phases; ++phase) {
      walk_row(phase);
      level(phase + 1);
    }
    close();
    return divide_up(count, teams);
  }

  void walk_row(int phase) {
    const std::vector<Step>& steps = analysis_.walks[static_cast<std::size_t>(phase)];
    if (steps.empty()) return;
    declare_reductions(phase);
    const std::string team = number(shape_.team);
    if (shape_.turns > 0) {
      line("#pragma unroll");
      open("for (int turn = 0; turn < " + number(shape_.turns) + "; ++turn) {");
      line("const index position = member + turn * " + team + ";");
      if (!(positions() % Dim(shape_.team)).same(Dim(0))) line("if (position >= positions) continue;");
    } else {
      open("for (index position = member; position < positions; position += " + team + ") {");
    }
    std::string flat = "position";
    if (!analysis_.inner.empty()) {
      line("const index chunks = " + text_of(divide_up(vector_extent(), shape_.width)) + ", run = position / chunks;");
      name_axes(analysis_.inner, "run");
      flat = "position % chunks";
    }
    open_pack(flat);
    pack(steps);
    close();
  }

  // ---- columns
  // --------------------------------------------------------------------------------------------------------------
  Dim columns() {
    const std::string width = number(shape_.columns);
    const Dim chunks = divide_up(vector_extent(), shape_.columns), units = product(analysis_.outer) * chunks;
    line("const int member = threadIdx.x / " + width + ";");
    line("const index units = " + text_of(units) + ", chunks = " + text_of(chunks) +
         ", rows = " + text_of(kernel_.inner_count()) + ";");
    open("for (index unit = blockIdx.x; unit < units; unit += gridDim.x) {");
    name_axes(analysis_.outer, "unit / chunks");
    line("const index column = unit % chunks * " + width + " + index(threadIdx.x) % " + width + ";");
    line("const bool active = column < " + text_of(vector_extent()) + ";");
    line("const index " + vector_name() + " = active ? column : " + text_of(vector_extent() - Dim(1)) + ";");
    level(0);
    for (int phase = 0; phase < analysis_.phases; ++phase) {
      walk_column(phase);
      level(phase + 1);
    }
    close();
    return units;
  }

  void walk_column(int phase) {
    const std::vector<Step>& steps = analysis_.walks[static_cast<std::size_t>(phase)];
    if (steps.empty()) return;
    declare_reductions(phase);
    open("for (index position = member; position < rows; position += " + number(shape_.team) + ") {");
    name_axes(analysis_.inner, "position");
    for (const Step& it : steps)
      if (at(it.instruction).kind != Kind::store && at(it.instruction).kind != Kind::reduce) step(it);
    for (const Step& it : steps)
      if (at(it.instruction).kind == Kind::reduce) {
        accumulate(it.instruction);
        line(reduction(it.instruction) + ".close();");
      }
    for (const Step& it : steps)
      if (at(it.instruction).kind == Kind::store) statement(it.instruction, "if (active) ");
    close();
  }

  const Kernel& kernel_;
  Analysis analysis_;
  const Expressions expressions_;
  CudaShape shape_;
  std::vector<bool> index_values_;
  bool loads_outside_ = false;
  std::string text_;
  int depth_ = 0;
};

}  // namespace

CudaKernel generate_cuda(const Kernel& kernel) { return Generator(kernel).run(); }

}  // namespace weft::codegen
