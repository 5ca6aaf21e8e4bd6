// One function a kernel: the statements of its tree, printed.
#include "codegen/cuda.hpp"

#include <algorithm>
#include <utility>

#include "base/fail.hpp"
#include "codegen/cuda_reads_ahead.hpp"
#include "loop/device_team.hpp"
#include "loop/product_nest.hpp"

namespace weft::codegen {

using loop::Instruction;
using loop::Kernel;
using loop::Kind;
using loop::LoopAxis;
using loop::Role;
using loop::Scope;
using loop::Statement;

namespace {

class Generator : DeviceReadsAhead {
 public:
  using DeviceReadsAhead::DeviceReadsAhead;

  CudaKernel run() {
    comments();
    const std::size_t buffers = std::max<std::size_t>(kernel_.buffers.size(), 1);
    const std::size_t sizes = std::max<std::size_t>(kernel_.parameters.size(), 1);
    const std::string shape = std::to_string(buffers) + ", " + std::to_string(sizes) + "> ";
    open("extern \"C\" __global__ void __launch_bounds__(" + std::to_string(threads()) +
         (team_.blocks > 0 ? ", " + number(team_.blocks) : "") + ") " + kernel_.name + "(const __grid_constant__ " +
         (sets_ > 1 ? "ArgumentTable<" + std::to_string(sets_) + ", " + shape + "table"
                    : "Arguments<" + shape + "arguments") +
         ") {");
    const bool early = (team_.ahead > 0 || !later_.empty()) && begins_early();
    if (!early) line("after_earlier_kernels();");
    if (sets_ > 1) {
      line("const int set = table.set_of(blockIdx.x);");
      line("const auto& arguments = table.sets[set];");
      line("const unsigned before = set ? unsigned(table.ends[set - 1]) : 0;");
      line("const unsigned block = blockIdx.x - before, blocks = unsigned(table.ends[set]) - before;");
    }
    line(std::string("using index = ") + (loop::fits_32_bits(kernel_) ? "int;" : "long;"));
    addresses();
    packs_in_shared_memory();
    if (team_.ahead > 0) ask_for_first_packs();
    if (!later_.empty()) ask_for_later_packs();
    if (early) line("after_earlier_kernels();");
    if (joins(nest_.body)) line("int joins = 0;");
    write(nest_.body);
    while (depth_ > 0) close();
    return {std::move(text_), threads(), std::move(blocks_), team_.shared, strides()};
  }

 private:
  // ---- statements ---------------------------------------------------------------------------------------------------
  void write(const std::vector<Statement>& block) {
    std::vector<int> joined;
    for (std::size_t s = 0; s < block.size(); ++s) {
      const Statement& it = block[s];
      const bool last = s + 1 == block.size() || block[s + 1].kind != it.kind;
      if (it.kind == Statement::Kind::join && at(it.instruction).kind == Kind::scan) {
        line("scan_team<" + number(team_.members) + ">(joins, r" + number(it.instruction) + ");");
        continue;
      }
      if (it.kind == Statement::Kind::join) {
        joined.push_back(it.instruction);
        if (last) join(std::exchange(joined, {}));
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
      case Statement::Kind::value:
        return declare(i, at(i).kind == Kind::scan                                 ? scanned(i)
                          : from_pack(i)                                           ? "p" + number(i) + ".get(j)"
                          : std::ranges::find(rows_ahead_, i) != rows_ahead_.end() ? "next" + number(i) + "[turn]"
                                                                                   : value(i));
      case Statement::Kind::reload:
        return declare(i, from_pack(it.from) ? "p" + number(i) + ".get(j)"
                                             : "load(" + place(at(it.from).buffer, at(it.from).index) + ")");
      case Statement::Kind::recall:
        if (team_.in_blocks) return declare(i, "p" + number(i) + ".get(j)");
        return declare(i, nest_.local(i)->scope == Scope::shared ? "load(&" + kept(i) + ")" : kept(i));
      case Statement::Kind::keep:
        return line(nest_.local(i)->scope == Scope::shared ? "store(&" + kept(i) + ", " + v(i) + ");"
                                                           : kept(i) + " = " + v(i) + ";");
      case Statement::Kind::store:
        if (from_pack(i)) return line("q" + number(i) + ".set(j, " + v(stored(i)) + ");");
        return line(guard() + "store(" + place(at(i).buffer, at(i).index) + ", " + v(stored(i)) + ");");
      case Statement::Kind::start:
        line(reduction_type(i) + " r" + number(i) + registers(i) + ";");
        return begin_scan(i);
      case Statement::Kind::accumulate: return accumulate(i);
      case Statement::Kind::close:
        if (!packs_columns()) line("r" + number(i) + ".close();");  // after several rows
        return;
      case Statement::Kind::result: return declare(i, result(i));
      case Statement::Kind::barrier: return line(team_barrier());
      case Statement::Kind::fetch: return fetch(i);
      case Statement::Kind::arrive: return line(is_ahead() ? "packs_arrive<1>();" : "packs_arrive<0>();");
      case Statement::Kind::multiply:
        return line("r" + number(i) + ".add(kept" + number(at(i).args[0]) + ", kept" + number(at(i).args[1]) + ");");
      case Statement::Kind::ask: return line("const bool stores = *" + buffer_name(kernel_.predicate) + " == 0;");
      case Statement::Kind::join:
      case Statement::Kind::open:
      case Statement::Kind::put: return;
      case Statement::Kind::clear: line("r" + number(i) + " = {};"); return begin_scan(i);
    }
  }

  // Whether threads join what each has: then the place in which they do it takes turns.
  static bool joins(const std::vector<Statement>& block) {
    return std::ranges::any_of(block,
                               [](const Statement& it) { return it.kind == Statement::Kind::join || joins(it.body); });
  }

  // ---- loops --------------------------------------------------------------------------------------------------------
  void write_loop(const Statement& it) {
    const Inside outside = inside_;
    const int depth_outside = depth_;
    switch (it.role) {
      case Role::grid: open_grid(); break;
      case Role::team:
        if (team_.ahead > 0) return write_ahead(it);
        if (packs_columns()) return write_packs_of_columns(it);
        if (scans_ && analysis_.form == Form::columns) return write_rows_of_columns(it);
        if (team_.in_blocks && kept_in(it.body[0]) >= 0) return write_blocks_of_tile(it);
        if (reads_tile(it)) return write_reads_of_tile(it);
        if (!row_.empty()) ask_for_row();
        team_.tile == 0            ? open_team()
        : product_ < 0             ? open_team_of_tile(it)
        : nest_.local(kept_in(it)) ? open_team_of_panel(it)
                                   : open_team_of_sums(it);
        break;
      case Role::held: open_held(); break;
      case Role::serial:
        inside_ = Inside::turn_of_rows;
        open_serial(it);
        break;
      default: pack_axis_ = it.axes[0].axis; return write_pack(it.body);
    }
    write(it.body);
    while (depth_ > depth_outside) close();
    inside_ = outside;
    if (it.role == Role::team) row_.clear();
  }

  // ---- rows whose packs are asked for ahead
  // The packs that a thread has of a row, in steps: in each it asks for those of the next one, of the next row in the
  // last. Where packs are no words they are read as they come.
  void write_ahead(const Statement& it) {
    const std::int64_t step = team_.members * team_.ahead, steps = positions().constant() / step;
    const int outside = depth_;
    inside_ = Inside::turn;
    open("if (words) {");
    line("#pragma unroll");
    open("for (int step = 0; step < " + number(steps) + "; ++step) {");
    line("const index first = member + step * " + number(step) + ";");
    for (const int i : ahead_) line(packs_of("next", i) + ";");
    const std::string next_row = "if (row + rows_on < rows) " + asked("row + rows_on", "member", "next");
    if (steps > 1) line("if (step + 1 < " + number(steps) + ") " + asked("row", "first + " + number(step), "next"));
    line((steps > 1 ? "else " : "") + next_row);
    open_turn_ahead();
    uses_ahead_ = true;
    write(it.body);
    uses_ahead_ = false;
    close();
    line("#pragma unroll");
    open("for (int turn = 0; turn < " + number(team_.ahead) + "; ++turn) {");
    for (const int i : ahead_) line("now" + number(i) + "[turn] = next" + number(i) + "[turn];");
    while (depth_ > outside) close();
    open("else {");
    open_team();
    write(it.body);
    while (depth_ > outside) close();
    inside_ = Inside::unit;
  }

  // ---- columns in packs
  // Whether packs are words is asked once, in front of the loops: loads of several rows are then on their way together.
  void write_packs_of_columns(const Statement& it) {
    const Inside outside = inside_;
    const int depth_outside = depth_;
    std::string begins;
    for (int i = 0; i < size(); ++i)
      if (at(i).kind == Kind::load && facts(i).inner && facts(i).vector)
        begins += (begins.empty() ? "" : ", ") + buffer_name(at(i).buffer);
    for (const bool words : {true, false}) {
      reads_words_ = words;
      open(words ? "if (at_words<" + number(team_.width) + ">(" + begins + ")) {" : "else {");
      const int depth_of_walk = depth_;
      open_team();
      const int depth_of_rows = depth_ - 1;
      write(it.body);
      while (depth_ > depth_of_rows) close();
      for (const Statement& each : it.body) {
        if (each.kind != Statement::Kind::close) continue;
        line("#pragma unroll");
        line("for (int j = 0; j < " + number(team_.width) + "; ++j) r" + number(each.instruction) + "[j].close();");
      }
      while (depth_ > depth_outside) close();
      WEFT_CHECK(depth_of_walk == depth_outside + 1, kernel_.name);
      inside_ = outside;
    }
    reads_words_ = false;
  }

  // ---- columns that are scanned: the loads of several rows are on their way before the first of them is used
  void write_rows_of_columns(const Statement& it) {
    constexpr std::int64_t rows_on_their_way = 8;
    const Inside outside = inside_;
    const int depth_outside = depth_;
    std::vector<int> loads;
    for (const Statement& each : it.body)
      if (each.kind == Statement::Kind::value && at(each.instruction).kind == Kind::load &&
          at(each.instruction).args[0] < 0 && loop::values_in(at(each.instruction).index).empty())
        loads.push_back(each.instruction);
    inside_ = Inside::turn;
    const std::string rows = number(rows_on_their_way);
    const bool full = (kernel_.inner_count() % Dim(rows_on_their_way)).same(Dim(0));
    open("for (index first = 0; first < rows; first += " + rows + ") {");
    for (const int i : loads) line(value_type(at(i).dtype) + " next" + number(i) + "[" + rows + "];");
    if (!loads.empty()) {
      line("#pragma unroll");
      open("for (int turn = 0; turn < " + rows + "; ++turn) {");
      line(full ? "const index position = first + turn;"
                : "const index position = lesser<index>(first + turn, rows - 1);");
      name_axes(analysis_.inner, "position");
      for (const int i : loads) line("next" + number(i) + "[turn] = " + value(i) + ";");
      close();
    }
    line("#pragma unroll");
    open("for (int turn = 0; turn < " + rows + "; ++turn) {");
    line("const index position = first + turn;");
    if (!full) line("if (position >= rows) break;");
    name_axes(analysis_.inner, "position");
    rows_ahead_ = std::move(loads);
    write(it.body);
    rows_ahead_.clear();
    while (depth_ > depth_outside) close();
    inside_ = outside;
  }

  // ---- tiles
  void write_reads_of_tile(const Statement& it) {
    const Statement& lanes = it.body[0];
    const Inside outside = inside_;
    const int depth_outside = depth_;
    pack_axis_ = lanes.axes[0].axis;
    for (const Statement& each : lanes.body)
      if (each.kind == Statement::Kind::value) in_registers_.push_back(each.instruction);
    for (const int i : in_registers_) line(pack_type(i) + " read" + number(i) + "[" + number(turns_of_tile()) + "];");
    std::string begins;
    for (const int i : in_registers_) begins += (begins.empty() ? "" : ", ") + buffer_name(at(i).buffer);
    const auto read_all = [&](const std::string& when, bool words) {
      open(when);
      open_team_of_tile(it);
      open_pack();
      for (const int i : in_registers_)
        line("read" + number(i) + "[turn]" + (words ? ".read_words(" + pack_place(i) + ");" : read_pack(i)));
      while (depth_ > depth_outside) close();
      inside_ = outside;
    };
    read_all("if (at_words<" + number(team_.width) + ">(" + begins + ")) {", true);
    read_all("else {", false);
    open_team_of_tile(it);
    write_pack(lanes.body);
    while (depth_ > depth_outside) close();
    inside_ = outside;
    in_registers_.clear();
  }

  // ---- packs --------------------------------------------------------------------------------------------------------
  // Whether the load or store here goes through its pack.
  bool from_pack(int i) const { return inside_ == Inside::element && in_pack(i); }
  // Its predicate, which is computed for the first element.
  void declare_for_pack(int i, std::vector<int>& declared) {
    if (i < 0 || !facts(i).vector || std::ranges::find(declared, i) != declared.end()) return;
    for (const int value : at(i).args) declare_for_pack(value, declared);
    declare(i, value(i));
    declared.push_back(i);
  }
  void read_pack_where(int i) {
    line(pack_type(i) + " p" + number(i) + ";");
    open("{");
    line("const index " + pack_axis_name() + " = begin;");
    std::vector<int> declared;
    declare_for_pack(at(i).args[0], declared);
    line("p" + number(i) + read_pack(i));
    close();
  }

  // A pack of neighbouring elements: loads of whole packs, each element, stores of whole packs. Where scans part the
  // loop over its elements, the pack is opened once, and read once.
  void write_pack(const std::vector<Statement>& body) {
    if (!std::exchange(pack_is_open_, true)) open_pack();
    const std::vector<int> stores = moved_together(body, Statement::Kind::store);
    std::vector<int> loads = moved_together(body, Statement::Kind::value);
    std::erase_if(loads, [&](int i) { return std::ranges::find(in_registers_, i) != in_registers_.end(); });
    const bool together = loads.size() + stores.size() > 1;
    for (const Statement& it : body)
      if (team_.in_blocks && it.kind == Statement::Kind::recall)
        line("const " + pack_type(it.instruction) + " p" + number(it.instruction) + " = " + in_tile(it.instruction) +
             ";");
    for (const Statement& it : body) {
      const bool reloads = it.kind == Statement::Kind::reload;
      const int i = it.instruction, from = reloads ? it.from : i;
      if (!reloads && it.kind != Statement::Kind::value && it.kind != Statement::Kind::store) continue;
      if (!in_pack(from) || std::find(packs_.begin(), packs_.end(), i) != packs_.end()) continue;
      packs_.push_back(i);
      if (it.kind == Statement::Kind::store)
        line("New" + pack_type(i) + " q" + number(i) + ";");
      else if (uses_ahead_ && std::ranges::find(ahead_, i) != ahead_.end())
        line("const " + pack_type(i) + "& p" + number(i) + " = now" + number(i) + "[turn];");
      else if (std::ranges::find(later_, i) != later_.end())
        line("const " + pack_type(i) + "& p" + number(i) + " = later" + number(i) + "[turn];");
      else if (std::ranges::find(row_, i) != row_.end())
        line("const " + pack_type(i) + "& p" + number(i) + " = all" + number(i) + "[turn];");
      else if (std::ranges::find(in_registers_, i) != in_registers_.end())
        line("const " + pack_type(i) + "& p" + number(i) + " = read" + number(i) + "[turn];");
      else if (uses_ahead_ || reads_words_)
        line(pack_type(from) + " p" + number(i) + "; p" + number(i) + ".read_words(" + pack_place(from) + ");");
      else if (nest_.is_fetched(i) && !reloads)
        line("const " + pack_type(i) + " p" + number(i) + " = " + in_shared(i) + ";");
      else if (in_pack_where(i))
        read_pack_where(i);
      else
        line(pack_type(from) + " p" + number(i) + ";" +
             (together && std::ranges::find(loads, i) != loads.end() ? "" : " p" + number(i) + read_pack(from)));
    }
    if (together) {
      ask_whether_words(loads, stores);
      for (const bool words : {true, false}) {
        if (loads.empty()) break;
        open(words ? "if (words) {" : "else {");
        for (const int i : loads) line("p" + number(i) + (words ? read_whole_pack(i) : read_pack(i)));
        close();
      }
    }
    write_elements(body);
    const auto is_backwards = [&](int i) { return loop::is_reversed(kernel_, analysis_, i); };
    const auto write_packs = [&](const char* how, const char* count) {
      for (const Statement& it : body)
        if (it.kind == Statement::Kind::store && in_pack(it.instruction))
          line((kernel_.predicate >= 0 ? "if (stores) q" : "q") + number(it.instruction) +
               (is_backwards(it.instruction) ? ".write_backwards(" : how) + pack_place(it.instruction) + count);
    };
    const char* const part = lies_apart() ? ".write_apart(" : ".write(";
    if (!together || stores.empty()) return write_packs(part, ", n);");
    open("if (words) {");
    lies_apart() ? write_packs(part, concat_text(", ", team_.width, ");").c_str()) : write_packs(".write_words(", ");");
    close();
    open("else {");
    write_packs(part, ", n);");
    close();
  }

  // Whether quotients are exact is asked once for a pack, where its elements can be computed again, as none is added
  // up. It takes registers, which are bounded where they count.
  void write_elements(const std::vector<Statement>& body) {
    const Inside outside = std::exchange(inside_, Inside::element);
    const std::string among = numbers_among(body);
    const auto elements = [&] {
      open_elements(!moves_packs_alone(body));
      write(body);
      close();
    };
    const auto each = [&] {
      if (!among.empty()) {
        open("if (!(" + among + ")) {");
        among_none_ = true;
        elements();
        among_none_ = false;
        close();
        open("else {");
      }
      elements();
      if (!among.empty()) close();
    };
    write_elements(body, each);
    inside_ = outside;
  }
  template <class Each>
  void write_elements(const std::vector<Statement>& body, const Each& each) {
    bool divides = false, adds = false;
    for (const Statement& it : body) {
      divides |= it.kind == Statement::Kind::value && divides_many(at(it.instruction));
      adds |= it.kind != Statement::Kind::value && it.kind != Statement::Kind::store &&
              it.kind != Statement::Kind::recall && it.kind != Statement::Kind::keep;
    }
    if (!divides || adds || team_.blocks == 0) return each();
    open("{");
    line("bool exact = true;");
    divides_nearly_ = true;
    each();
    divides_nearly_ = false;
    open("if (!exact) {");
    each();
    close();
    close();
  }

  int threads() const { return kernel_.vector_axis < 0 ? 1 : team_.threads; }

  const int product_ = loop::product_in(kernel_);
  bool uses_ahead_ = false;        // whose packs are there
  bool reads_words_ = false;       // packs begin at words here
  std::vector<int> in_registers_;  // loads of a tile that have been read
  std::vector<int> rows_ahead_;    // loads of columns that have been read for several rows
};

}  // namespace

CudaKernel generate_cuda(const Kernel& kernel, std::size_t sets) { return Generator(kernel, sets).run(); }

}  // namespace weft::codegen
