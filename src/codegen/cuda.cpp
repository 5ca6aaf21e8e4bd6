// One function a kernel. Values bear their numbers in the loop IR (v7, and k7 as an index), axes too (i0), as in the
// C++ for the host, so that the two and the loop IR can be read side by side.
#include "codegen/cuda.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/fail.hpp"
#include "codegen/cpp_expression.hpp"
#include "loop/device_team.hpp"

namespace weft::codegen {

using loop::Instruction;
using loop::Kernel;
using loop::Kind;
using loop::Role;
using loop::State;
using loop::Statement;

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
  Generator(const Kernel& kernel, std::size_t sets)
      : kernel_(kernel),
        sets_(sets),
        nest_(loop::device_nest(kernel)),
        analysis_(nest_.analysis),
        team_(nest_.team),
        expressions_(kernel_, analysis_) {}

  CudaKernel run() {
    find_index_values();
    comments();
    const std::size_t buffers = std::max<std::size_t>(kernel_.buffers.size(), 1);
    const std::size_t sizes = std::max<std::size_t>(kernel_.parameters.size(), 1);
    const std::string shape = std::to_string(buffers) + ", " + std::to_string(sizes) + "> ";
    open("extern \"C\" __global__ void __launch_bounds__(" + std::to_string(threads()) +
         (team_.blocks > 0 ? ", " + number(team_.blocks) : "") + ") " + kernel_.name + "(const __grid_constant__ " +
         (sets_ > 1 ? "ArgumentTable<" + std::to_string(sets_) + ", " + shape + "table"
                    : "Arguments<" + shape + "arguments") +
         ") {");
    if (sets_ > 1) {
      line("const int set = table.set_of(blockIdx.x);");
      line("const auto& arguments = table.sets[set];");
      line("const unsigned before = set ? unsigned(table.ends[set - 1]) : 0;");
      line("const unsigned block = blockIdx.x - before, blocks = unsigned(table.ends[set]) - before;");
    }
    line(std::string("using index = ") + (loop::fits_32_bits(kernel_) ? "int;" : "long;"));
    addresses();
    packs_in_shared_memory();
    write(nest_.body);
    while (depth_ > 0) close();
    return {std::move(text_), threads(), std::move(blocks_), team_.shared};
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
  std::string block() const { return sets_ > 1 ? "block" : "blockIdx.x"; }
  std::string blocks() const { return sets_ > 1 ? "blocks" : "gridDim.x"; }
  static std::string number(std::int64_t n) { return std::to_string(n); }
  Dim product(const std::vector<int>& axes) const { return loop::extent_of(kernel_, axes); }

  bool in_pack(int i) const { return team_.width > 1 && loop::is_contiguous(kernel_, analysis_, i); }
  // Packs of a row.
  Dim positions() const { return product(analysis_.inner) * loop::divide_up(vector_extent(), team_.width); }
  // All packs are full.
  bool whole() const { return team_.width == 1 || (vector_extent() % Dim(team_.width)).same(Dim(0)); }

  void find_index_values() {
    index_values_.resize(kernel_.body.size());
    for (const Instruction& instruction : kernel_.body)
      for (const int value : loop::values_in(instruction.index)) index_values_[static_cast<std::size_t>(value)] = true;
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
      case Kind::apply: return compares_position(it) ? position_compared(it) : spell(info(it.op).lanes, it.args);
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
  // Whether a number is this position (a label, say): of 64 bits, but once for a row it is seen whether it has more
  // than the position's 32.
  bool compares_position(const Instruction& it) const {
    return it.op == Op::equal && at(it.args[1]).kind == Kind::index && at(it.args[1]).dtype == DType::i64 &&
           loop::fits_32_bits(kernel_);
  }
  std::string position_compared(const Instruction& it) const {
    const std::string number = v(it.args[0]);
    const Access access = expressions_.access(at(it.args[1]).index);
    if (inside_ != Inside::element || team_.width == 1 || access.kind != Access::Kind::contiguous)
      return "is_position(" + number + ", " + text_of(at(it.args[1]).index) + ", 0)";
    const std::string rest = access.rest.same(Dim(0)) ? "" : text_of(access.rest) + " + ";
    return "is_position(" + number + ", " + rest + "begin, j)";
  }
  void declare(int i, const std::string& right) {
    line("const " + value_type(at(i).dtype) + " " + v(i) + " = " + right + ";");
    if (index_values_[static_cast<std::size_t>(i)]) line("const index k" + number(i) + " = index(" + v(i) + ".value);");
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

  // ---- statements
  // --------------------------------------------------------------------------------------------------------------
  void write(const std::vector<Statement>& block) {
    std::string joined;
    for (std::size_t s = 0; s < block.size(); ++s) {
      const Statement& it = block[s];
      const bool last = s + 1 == block.size() || block[s + 1].kind != it.kind;
      if (it.kind == Statement::Kind::join) {
        joined += (joined.empty() ? "r" : ", r") + number(it.instruction);
        if (last) line("join_team<" + number(team_.members) + ">(" + std::exchange(joined, {}) + ");");
        continue;
      }
      write(it);
      if (it.kind == Statement::Kind::fetch && last) line("close_group();");
    }
  }

  void write(const Statement& it) {
    const int i = it.instruction;
    switch (it.kind) {
      case Statement::Kind::loop: return write_loop(it);
      case Statement::Kind::value: return declare(i, from_pack(i) ? "p" + number(i) + ".get(j)" : value(at(i)));
      case Statement::Kind::reload:
        return declare(i, from_pack(it.from) ? "p" + number(i) + ".get(j)"
                                             : "load(" + place(at(it.from).buffer, at(it.from).index) + ")");
      case Statement::Kind::recall: return declare(i, kept(i));
      case Statement::Kind::keep: return line(kept(i) + " = " + v(i) + ";");
      case Statement::Kind::store:
        if (from_pack(i)) return line("q" + number(i) + ".set(j, " + v(at(i).args[0]) + ");");
        return line(guard() + "store(" + place(at(i).buffer, at(i).index) + ", " + v(at(i).args[0]) + ");");
      case Statement::Kind::start: return line(reduction_type(i) + " r" + number(i) + registers(i) + ";");
      case Statement::Kind::accumulate: return accumulate(i);
      case Statement::Kind::close: return line("r" + number(i) + ".close();");
      case Statement::Kind::result: return declare(i, result(i));
      case Statement::Kind::barrier: return line(team_barrier());
      case Statement::Kind::fetch: return fetch(i);
      case Statement::Kind::arrive: return line(is_ahead() ? "packs_arrive<1>();" : "packs_arrive<0>();");
      case Statement::Kind::leave: return line("if (*" + buffer_name(kernel_.predicate) + " != 0) return;");
      case Statement::Kind::join:
      case Statement::Kind::open:
      case Statement::Kind::put:
      case Statement::Kind::clear: return;
    }
  }

  // Who stores what all threads of a team have.
  std::string guard() const {
    switch (inside_) {
      case Inside::function: return "if (" + block() + " == 0 && threadIdx.x == 0) ";
      case Inside::unit:
      case Inside::turn_of_rows:
        return analysis_.form == Form::columns ? "if (active && member == 0) "
               : analysis_.form == Form::rows  ? "if (member == 0) "
                                               : "";
      case Inside::turn: return analysis_.form == Form::columns ? "if (active) " : "";
      case Inside::element: break;
    }
    return "";
  }
  std::string team_barrier() const {
    return analysis_.form == Form::rows && team_.members <= 32
               ? "__syncwarp(team_lanes<" + number(team_.members) + ">());"
               : "__syncthreads();";
  }

  // ---- loops
  // -------------------------------------------------------------------------------------------------------------------
  static std::vector<int> plain(const Statement& loop) {
    std::vector<int> axes;
    for (const loop::Walked& each : loop.axes) axes.push_back(each.axis);
    return axes;
  }

  void write_loop(const Statement& it) {
    const Inside outside = inside_;
    const int depth_outside = depth_;
    switch (it.role) {
      case Role::grid: open_grid(); break;
      case Role::team: open_team(); break;
      case Role::serial:
        inside_ = Inside::turn_of_rows;
        open_serial(it);
        break;
      default: return write_pack(it.body);
    }
    write(it.body);
    while (depth_ > depth_outside) close();
    inside_ = outside;
  }

  void open_serial(const Statement& it) {
    const std::vector<int> axes = plain(it);
    const std::string i = axes.size() == 1 ? axis_name(axes[0]) : "carried";
    open("for (index " + i + " = 0; " + i + " < " + text_of(product(axes)) + "; ++" + i + ") {");
    if (axes.size() > 1) name_axes(axes, i);
  }

  void open_grid() {
    inside_ = Inside::unit;
    switch (analysis_.form) {
      case Form::pointwise: return open_grid_of_packs();
      case Form::rows: return open_grid_of_rows();
      case Form::columns: return open_grid_of_columns();
    }
  }

  void open_grid_of_packs() {
    const Dim chunks = loop::divide_up(vector_extent(), team_.width), units = product(analysis_.outer) * chunks;
    const std::string threads = number(team_.threads);
    const bool flat = analysis_.outer.empty();
    line("const index units = " + text_of(units) + ";");
    if (!flat) line("const index chunks = " + text_of(chunks) + ";");
    open("for (index unit = index(" + block() + ") * " + threads +
         " + index(threadIdx.x); unit < units; unit += index(" + blocks() + ") * " + threads + ") {");
    if (!flat) {
      line("const index row = unit / chunks;");
      name_axes(analysis_.outer, "row");
    }
    pack_ = flat ? "unit" : "unit % chunks";
    blocks_ = loop::divide_up(units, team_.threads);
  }

  void open_grid_of_rows() {
    const int teams = team_.threads / team_.members;
    const Dim count = product(analysis_.outer);
    line("const int member = threadIdx.x" + (teams > 1 ? " % " + number(team_.members) : std::string()) + ";");
    line("const index rows = " + text_of(count) + ", positions = " + text_of(positions()) + ";");
    const std::string first =
        teams > 1 ? "index(" + block() + ") * " + number(teams) + " + index(threadIdx.x) / " + number(team_.members)
                  : block();
    open("for (index row = " + first + "; row < rows; row += index(" + blocks() + ")" +
         (teams > 1 ? " * " + number(teams) : "") + ") {");
    name_axes(analysis_.outer, "row");
    for (const int i : analysis_.kept)
      line(value_type(at(i).dtype) + " kept" + number(i) + "[" + number(team_.turns) + "][" +
           number(facts(i).vector ? team_.width : 1) + "];");
    blocks_ = loop::divide_up(count, teams);
  }

  void open_grid_of_columns() {
    const std::string width = number(team_.columns);
    const Dim chunks = loop::divide_up(vector_extent(), team_.columns), units = product(analysis_.outer) * chunks;
    line("const int member = threadIdx.x / " + width + ";");
    line("const index units = " + text_of(units) + ", chunks = " + text_of(chunks) +
         ", rows = " + text_of(kernel_.inner_count()) + ";");
    open("for (index unit = " + block() + "; unit < units; unit += " + blocks() + ") {");
    name_axes(analysis_.outer, "unit / chunks");
    line("const index column = unit % chunks * " + width + " + index(threadIdx.x) % " + width + ";");
    line("const bool active = column < " + text_of(vector_extent()) + ";");
    line("const index " + vector_name() + " = active ? column : " + text_of(vector_extent() - Dim(1)) + ";");
    blocks_ = units;
  }

  void open_team() {
    inside_ = Inside::turn;
    const std::string members = number(team_.members);
    if (analysis_.form == Form::columns) {
      open("for (index position = member; position < rows; position += " + members + ") {");
      return name_axes(analysis_.inner, "position");
    }
    open_positions();
  }
  // The packs of a row that are this thread's.
  void open_positions() {
    const std::string members = number(team_.members);
    if (team_.turns > 0) {
      line("#pragma unroll");
      open("for (int turn = 0; turn < " + number(team_.turns) + "; ++turn) {");
      line("const index position = member + turn * " + members + ";");
      if (!(positions() % Dim(team_.members)).same(Dim(0))) line("if (position >= positions) continue;");
    } else {
      open("for (index position = member; position < positions; position += " + members + ") {");
    }
    pack_ = "position";
    if (!analysis_.inner.empty()) {
      line("const index chunks = " + text_of(loop::divide_up(vector_extent(), team_.width)) +
           ", run = position / chunks;");
      name_axes(analysis_.inner, "run");
      pack_ = "position % chunks";
    }
  }

  // ---- packs
  // ----------------------------------------------------------------------------------------------------------------
  // Whether the load or store here goes through its pack.
  bool from_pack(int i) const { return inside_ == Inside::element && in_pack(i); }
  std::string pack_type(int i) const {
    return std::string("Pack<") + memory_type(at(i).dtype) + ", " + number(team_.width) + ">";
  }
  std::string pack_place(int i) const {
    const Access access = expressions_.access(at(i).index);
    return place(at(i).buffer, access.rest) + " + begin";
  }

  // Where this pack begins, and how many of its elements exist.
  void open_pack() {
    if (team_.width == 1) return line("const index " + vector_name() + " = " + pack_ + ";");
    line("const index begin = " + (pack_.find(' ') == std::string::npos ? pack_ : "(" + pack_ + ")") + " * " +
         number(team_.width) + ";");
    if (whole())
      line("constexpr int n = " + number(team_.width) + ";");
    else
      line("const int n = int(lesser<index>(" + number(team_.width) + ", " + text_of(vector_extent()) + " - begin));");
  }
  void open_elements() {
    if (team_.width == 1) return open("{");
    line("#pragma unroll");
    open("for (int j = 0; j < " + number(team_.width) + "; ++j) {");
    if (!whole()) line("if (j >= n) continue;");
    line("const index " + vector_name() + " = begin + j;");
  }

  // A pack of neighbouring elements: loads of whole packs, each element, stores of whole packs.
  void write_pack(const std::vector<Statement>& body) {
    open_pack();
    for (const Statement& it : body) {
      const bool reloads = it.kind == Statement::Kind::reload;
      const int i = it.instruction, from = reloads ? it.from : i;
      if (!reloads && it.kind != Statement::Kind::value && it.kind != Statement::Kind::store) continue;
      if (!in_pack(from)) continue;
      if (it.kind == Statement::Kind::store)
        line(pack_type(i) + " q" + number(i) + ";");
      else if (is_fetched(i) && !reloads)
        line("const " + pack_type(i) + " p" + number(i) + " = " + in_shared(i) + ";");
      else
        line(pack_type(from) + " p" + number(i) + "; p" + number(i) + ".read(" + pack_place(from) + ", n);");
    }
    const Inside outside = inside_;
    open_elements();
    inside_ = Inside::element;
    write(body);
    inside_ = outside;
    close();
    for (const Statement& it : body)
      if (it.kind == Statement::Kind::store && in_pack(it.instruction))
        line("q" + number(it.instruction) + ".write(" + pack_place(it.instruction) + ", n);");
  }

  // ---- packs in shared memory
  bool is_fetched(int i) const {
    return std::find(nest_.fetched.begin(), nest_.fetched.end(), i) != nest_.fetched.end();
  }
  // Of rows that a unit walks in order there are two, which take turns.
  bool is_ahead() const { return !analysis_.carried.empty(); }
  void packs_in_shared_memory() {
    Dim words = 0;
    for (const int i : nest_.fetched) {
      line(pack_type(i) + "* const shared" + number(i) + " = shared_packs<" + pack_type(i) + ">(" + text_of(words) +
           ");");
      words = words + (is_ahead() ? Dim(2 * team_.turns * team_.members) : positions()) * Dim(pack_bytes(i)) / Dim(16);
    }
  }
  std::int64_t pack_bytes(int i) const {
    return team_.width * static_cast<std::int64_t>(storage_bytes(at(i).dtype, 1));
  }
  // The pack of this thread's position in this row, or in the next.
  std::string in_shared(int i, bool next = false) const {
    const std::string name = "shared" + number(i);
    if (!is_ahead()) return name + "[position]";
    return name + "[" + axis_name(analysis_.carried[0]) + (next ? " + 1 & 1" : " & 1") + " ? position + " +
           number(team_.turns * team_.members) + " : position]";
  }
  void fetch(int i) {
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

  // A value in the registers of its thread.
  std::string element(bool vector) const {
    return std::string("[turn][") + (vector && team_.width > 1 ? "j" : "0") + "]";
  }
  std::string kept(int i) const { return "kept" + number(i) + element(facts(i).vector); }

  // ---- reductions
  // -----------------------------------------------------------------------------------------------------------
  static const char* operation(Op op) {
    return op == Op::sum ? "Sum" : op == Op::prod ? "Product" : op == Op::amax ? "Greatest" : "Least";
  }
  State state(int i) const { return nest_.states[static_cast<std::size_t>(i)]; }
  std::string accumulated(int i) const {
    const DType dtype = at(at(i).args[0]).dtype;
    return is_floating(dtype) ? element_type(dtype) : "long";
  }
  std::string reduction_type(int i) const {
    if (at(i).op == Op::argmax) return "ArgMax<" + accumulated(i) + ">";
    return std::string("Reduction<") + operation(at(i).op) + ", " + accumulated(i) + ">";
  }
  // Columns that a thread holds itself have a state for each of its elements.
  std::string registers(int i) const {
    return state(i) == State::columns ? "[" + number(team_.turns) + "][" + number(team_.width) + "]" : "";
  }
  std::string held(int i) const { return "r" + number(i) + (state(i) == State::columns ? element(true) : ""); }
  void accumulate(int i) {
    const int operand = at(i).args[0];
    std::string x = is_floating(at(operand).dtype) ? v(operand) : "long(" + v(operand) + ".value)";
    if (at(i).op == Op::argmax) x += ", long(" + text_of(at(i).index) + ")";
    line(held(i) + ".add(" + x + ");");
  }
  std::string result(int i) const {
    std::string joined;
    switch (state(i)) {
      case State::columns: joined = held(i) + ".folded()"; break;
      case State::lanes:
        joined = "join_columns<" + number(team_.columns) + ", " + number(team_.members) + ">(" + held(i) + ")";
        break;
      default: joined = held(i) + ".joined()";
    }
    const bool is_long = at(i).op == Op::argmax || accumulated(i) == "long";
    return is_long ? std::string("convert<") + memory_type(at(i).dtype) + ">(Integer<long>(" + joined + "))" : joined;
  }

  int threads() const { return kernel_.vector_axis < 0 ? 1 : team_.threads; }

  enum class Inside : std::uint8_t { function, unit, turn_of_rows, turn, element };

  const Kernel& kernel_;
  const std::size_t sets_;
  const loop::Nest nest_;
  const Analysis& analysis_;
  const loop::Team& team_;
  const Expressions expressions_;
  Dim blocks_ = 1;
  std::vector<bool> index_values_;
  Inside inside_ = Inside::function;
  std::string pack_;  // which pack of the vector axis this is
  std::string text_;
  int depth_ = 0;
};

}  // namespace

CudaKernel generate_cuda(const Kernel& kernel, std::size_t sets) { return Generator(kernel, sets).run(); }

}  // namespace weft::codegen
