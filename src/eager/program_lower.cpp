// Which nodes of a body go by rows, in which order, and where in a block's memory their values lie.
#include <algorithm>
#include <optional>

#include "base/fail.hpp"
#include "eager/blocks.hpp"
#include "eager/program.hpp"
#include "ir/builder.hpp"
#include "ir/callee.hpp"

namespace weft::eager {

using Stage = Program::Stage;

namespace {

constexpr std::size_t block_bytes = 96 << 10;  // of what a block reads and keeps: within the second-level cache
constexpr std::size_t longest_row = 1 << 20;   // in bytes, likewise

bool is_alias(const Node& node) {
  const OpKind kind = info(node.op).kind;
  if (kind == OpKind::cast)
    return node.type.dtype == type_of(node.input(0)).dtype ||
           (node.op == Op::bitcast && node.type.dtype != DType::boolean);
  return kind == OpKind::view || kind == OpKind::identity;
}
bool folds(Op op) { return op == Op::sum || op == Op::prod || op == Op::amax || op == Op::amin; }

// A graph of single primitives on the host, of known sizes, none of them 0.
bool is_plain(const Graph& graph) {
  for (const Tensor& value : graph.nodes) {
    const Node& node = *value.node();
    const OpKind kind = info(node.op).kind;
    if (node.output_count != 1 || kind == OpKind::factorization || kind == OpKind::region || node.op == Op::host_call ||
        node.type.device.type != Device::Type::cpu || node.op == Op::data)
      return false;
    for (const Dim size : node.type.shape)
      if (!size.is_constant() || size.constant() < 1) return false;
  }
  return graph.effects.empty();
}

Graph flattened(const Graph& body) {
  std::vector<Tensor> inputs, effects;
  for (const Tensor& input : body.inputs) inputs.push_back(Builder({}, 0, 0).input(inputs.size(), type_of(input)));
  std::vector<Tensor> outputs = apply_body(
      body, inputs, {{}, 0, 0}, [](const Node&) { return true; }, effects);
  return make_graph(std::move(inputs), std::move(outputs), std::move(effects));
}

}  // namespace

class Lowering {
 public:
  explicit Lowering(const Graph& body) { program_->graph_ = flattened(body); }

  std::shared_ptr<const Program> run() {
    if (!is_plain(graph())) return {};
    for (const Tensor& value : graph().nodes) sizes_.push_back(sizes_of(value.node()->type));
    find_takes();
    choose_domain();
    // As many outer axes as leave the least work that is not by rows.
    std::optional<std::int64_t> least;
    int best = 0;
    for (int axes = domain_.rank; axes > 0; --axes) {
      const std::int64_t apart = place(axes);
      if (least && apart >= *least) continue;
      least = apart;
      best = axes;
    }
    std::int64_t all = 0;
    for (std::size_t i = 0; i < sizes_.size(); ++i) all += computes(i) ? work(i) : 0;
    if (!least || *least * 4 > all) return {};
    place(best);
    mark_wholes();
    compute_once_a_row();
    make_operations();
    if (program_->operations_.size() < 2 || !choose_block()) return {};
    return std::move(program_);
  }

 private:
  const Graph& graph() const { return program_->graph_; }
  const Node& node(std::size_t i) const { return *graph().nodes[i].node(); }
  std::size_t operand(std::size_t i, std::size_t k) const { return graph().number(node(i).input(k)); }
  Program::NodePlace& placed(std::size_t i) { return program_->placed_[i]; }
  const Sizes& sizes(std::size_t i) const { return sizes_[i]; }

  bool computes(std::size_t i) const { return info(node(i).op).kind != OpKind::leaf && !is_alias(node(i)); }
  std::int64_t work(std::size_t i) const {
    std::int64_t count = sizes(i).count();
    for (const Tensor& input : node(i).inputs()) count = std::max(count, sizes(graph().number(input)).count());
    return count;
  }
  // Whether the value's leading axes are the program's rows.
  bool by_rows(std::size_t i) const {
    const Sizes& own = sizes(i);
    return own.rank >= program_->outer_axes_ &&
           std::equal(domain_.size, domain_.size + program_->outer_axes_, own.size);
  }
  std::int64_t inner(std::size_t i) const { return sizes(i).count() / program_->rows_; }

  // A gather along an axis is recorded as permute, gather and permute: places of axis `axis` of node `from`.
  struct Take {
    int from = -1, index = -1, axis = 0;
  };
  void find_takes() {
    takes_.assign(sizes_.size(), {});
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      if (node(i).op != Op::permute) continue;
      const std::size_t gather = operand(i, 0);
      if (node(gather).op != Op::gather || sizes(operand(gather, 1)).rank != 1 || uses(gather) != 1 ||
          is_output(gather))
        continue;
      const std::size_t permuted = operand(gather, 0);
      if (node(permuted).op != Op::permute) continue;
      const AxisList &before = node(permuted).attributes<Permute>().axes, &after = node(i).attributes<Permute>().axes;
      const std::size_t axis = before[0];
      bool moves_one = before.count == after.count && after[axis] == 0;
      for (std::size_t k = 0; k < before.count && moves_one; ++k) {
        if (k != axis) moves_one = after[k] == (k < axis ? k + 1 : k);
        if (k > 0) moves_one = moves_one && before[k] == (k <= axis ? k - 1 : k);
      }
      if (moves_one)
        takes_[i] = {static_cast<int>(operand(permuted, 0)), static_cast<int>(operand(gather, 1)),
                     static_cast<int>(axis)};
    }
  }
  // The largest value, not counting the intermediate values of takes.
  void choose_domain() {
    std::vector<bool> between(sizes_.size(), false);
    for (std::size_t i = 0; i < sizes_.size(); ++i)
      if (takes_[i].from >= 0) between[operand(i, 0)] = true;
    for (std::size_t i = 0; i < sizes_.size(); ++i)
      if (!between[i] && sizes(i).count() > domain_.count()) domain_ = sizes(i);
  }
  // Whether places are taken inside of rows: of a value by rows, at places that are known before them.
  bool takes_by_rows(std::size_t i) const {
    const Take& take = takes_[i];
    if (take.from < 0 || take.axis < program_->outer_axes_ || !by_rows(i)) return false;
    const auto from = static_cast<std::size_t>(take.from);
    const Stage stage = program_->placed_[from].stage;
    return by_rows(from) && (stage == Stage::row || stage == Stage::view || stage == Stage::before) &&
           program_->placed_[static_cast<std::size_t>(take.index)].stage == Stage::before;
  }
  // Nodes that only such takes read are not computed.
  void place_inside() {
    for (std::size_t i = sizes_.size(); i-- > 0;) {
      if (placed(i).stage != Stage::after || node(i).op != Op::permute || is_output(i)) continue;
      bool inside = true;
      for (std::size_t user = i + 1; user < sizes_.size(); ++user)
        for (const Tensor& input : node(user).inputs())
          inside = inside && (graph().number(input) != i || placed(user).stage == Stage::inside);
      if (inside) placed(i).stage = Stage::inside;
    }
  }
  bool is_output(std::size_t i) const {
    return std::ranges::any_of(graph().outputs, [&](const Tensor& output) { return graph().number(output) == i; });
  }

  // Gives each node its stage. The work of those that are not by rows.
  std::int64_t place(int outer_axes) {
    Program& p = *program_;
    p.outer_axes_ = outer_axes;
    p.rows_ = 1;
    for (int axis = 0; axis < outer_axes; ++axis) p.rows_ *= domain_.size[axis];
    p.placed_.assign(sizes_.size(), {});
    std::int64_t apart = 0;
    for (std::size_t i = 0; i < sizes_.size(); ++i) place_node(i);
    place_inside();
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      const Stage stage = placed(i).stage;
      if (computes(i) && (stage == Stage::before || stage == Stage::after)) apart += work(i);
    }
    return apart;
  }

  void place_node(std::size_t i) {
    bool rows = false, after = false;
    for (std::size_t k = 0; k < node(i).operand_count; ++k) {
      const Stage stage = placed(operand(i, k)).stage;
      rows = rows || stage == Stage::row || stage == Stage::view;
      after = after || stage == Stage::after || stage == Stage::folded;
    }
    Program::NodePlace& own = placed(i);
    const bool takes = takes_by_rows(i);
    if (takes)
      own.stage = Stage::row, placed(operand(i, 0)).stage = Stage::inside;
    else if (after)
      own.stage = Stage::after;
    else if (!rows && (!computes(i) || !starts_rows(i)))
      own.stage = Stage::before;
    else if (is_alias(node(i)))
      place_view(i);
    else if (info(node(i).op).kind == OpKind::reduce)
      own.stage = stage_of_reduction(i);
    else
      own.stage = (is_pointwise_like(i) || gathers_by_rows(i)) && by_rows(i) ? Stage::row : Stage::after;
    if (own.stage == Stage::row) own.base = static_cast<int>(i);
    if (own.stage == Stage::row || own.stage == Stage::view) own.inner = inner(i);
  }
  bool is_pointwise_like(std::size_t i) const {
    const OpKind kind = info(node(i).op).kind;
    return kind == OpKind::pointwise || kind == OpKind::cast;
  }
  // Whether the index goes by rows, and the table is there before them.
  bool gathers_by_rows(std::size_t i) const {
    return node(i).op == Op::gather && by_rows(operand(i, 1)) &&
           program_->placed_[operand(i, 0)].stage == Stage::before;
  }
  // Whether a node over whole values is computed by rows.
  bool starts_rows(std::size_t i) const {
    if (is_pointwise_like(i) || gathers_by_rows(i)) return by_rows(i);
    return info(node(i).op).kind == OpKind::reduce && by_rows(operand(i, 0));
  }

  // Of a value by rows: the same memory, or one element for a whole row.
  void place_view(std::size_t i) {
    const std::size_t from = operand(i, 0);
    Program::NodePlace& own = placed(i);
    own.stage = Stage::after;
    if (!by_rows(i)) return;
    const OpKind kind = info(node(i).op).kind;
    const bool same = inner(i) == inner(from);
    const bool spreads = node(i).op == Op::expand && inner(from) == 1 && sizes(i).rank == sizes(from).rank;
    const bool keeps_order = kind != OpKind::view || node(i).op == Op::reshape || (node(i).op == Op::expand && same);
    if (!(keeps_order && same) && !spreads) return;
    own = placed(from);
    own.stage = Stage::view;
    own.whole = false;
    own.repeated = own.repeated || (spreads && !same);
  }

  Stage stage_of_reduction(std::size_t i) {
    const std::size_t from = operand(i, 0);
    if (!by_rows(from) || !folds(node(i).op)) return Stage::after;
    const AxisSet axes = node(i).attributes<Reduce>().axes;
    const Sizes& shape = sizes(from);
    bool outer_all = true, outer_none = true, inner_none = true, trailing = true;
    for (int axis = 0; axis < shape.rank; ++axis) {
      if (shape.size[axis] == 1) continue;
      if (axis < program_->outer_axes_) {
        outer_all = outer_all && axes[axis];
        outer_none = outer_none && !axes[axis];
      } else {
        trailing = trailing && (axes[axis] || inner_none);
        inner_none = inner_none && !axes[axis];
      }
    }
    if (outer_none && trailing) return Stage::row;
    // Chunks of 4096 elements or of 64 rows, which blocks fill.
    const bool fills = inner(from) > 1 || shape.count() == domain_.count();
    return outer_all && inner_none && fills ? Stage::folded : Stage::after;
  }

  // Values that are needed as a whole: by nodes after the rows, and by the caller.
  void mark_wholes() {
    std::vector<bool> needed(sizes_.size(), false);
    for (const Tensor& output : graph().outputs) needed[graph().number(output)] = true;
    for (std::size_t i = sizes_.size(); i-- > 0;) {
      Program::NodePlace& own = placed(i);
      if (own.stage == Stage::row || own.stage == Stage::view) own.whole = needed[i];
      if (own.stage == Stage::after || (own.stage == Stage::view && needed[i]))
        for (const Tensor& input : node(i).inputs()) needed[graph().number(input)] = true;
    }
  }

  // What is computed of numbers and of values that are one element for a row is such a value itself, unless it is
  // needed as a whole. Views follow.
  void compute_once_a_row() {
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      Program::NodePlace& own = placed(i);
      if (own.stage == Stage::view) own.repeated = own.repeated || placed(operand(i, 0)).repeated;
      if (own.stage != Stage::row || own.whole || own.inner == 1 || !is_pointwise_like(i)) continue;
      bool repeated = true, any = false;
      for (std::size_t k = 0; k < node(i).operand_count; ++k) {
        const Program::NodePlace& from = placed(operand(i, k));
        const bool by_row = from.stage == Stage::row || from.stage == Stage::view;
        any = any || by_row;
        repeated = repeated && (by_row ? from.repeated : node(operand(i, k)).op == Op::constant);
      }
      if (!repeated || !any) continue;
      own.repeated = true;
      own.inner = 1;
    }
  }

  using Kind = Program::Operation::Kind;
  Kind kind_of(std::size_t i) const {
    if (node(i).op == Op::permute) return Kind::take;  // others are by no rows
    if (node(i).op == Op::gather) return Kind::gather;
    return info(node(i).op).kind == OpKind::reduce ? Kind::reduce : Kind::pointwise;
  }

  void make_operations() {
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      const Program::NodePlace& own = placed(i);
      if (own.stage != Stage::row && own.stage != Stage::folded) continue;
      Program::Operation operation{node(i).op, static_cast<int>(i)};
      operation.stored = node(i).type.dtype;
      operation.kind = kind_of(i);
      if (operation.kind == Kind::take)
        operation.operands = {takes_[i].from};
      else if (operation.kind == Kind::gather)
        operation.operands = {static_cast<int>(operand(i, 1))};
      else
        for (std::size_t k = 0; k < node(i).operand_count; ++k)
          operation.operands.push_back(static_cast<int>(operand(i, k)));
      for (const int from : operation.operands)
        program_->widest_ =
            std::max(program_->widest_, static_cast<std::size_t>(inner(static_cast<std::size_t>(from))));
      const DType last = node(i).input(node(i).operand_count - 1u).node()->type.dtype;
      if (operation.kind == Kind::take) {
        operation.whole = takes_[i].index;
        operation.computed = operation.stored;
        for (int axis = takes_[i].axis + 1; axis < sizes(i).rank; ++axis) operation.width *= sizes(i).size[axis];
        operation.length = sizes(static_cast<std::size_t>(takes_[i].from)).size[takes_[i].axis];
      } else if (operation.kind == Kind::gather) {
        operation.whole = static_cast<int>(operand(i, 0));
        operation.computed = operation.stored;
        operation.width = sizes(i).count() / sizes(operand(i, 1)).count();
      } else if (operation.kind == Kind::reduce) {
        operation.computed = accumulated_in(last);
        operation.reduce = reduce_kernel(operation.op, operation.computed);
        if (own.stage == Stage::row) operation.length = inner(operand(i, 0)) / inner(i);
      } else {
        operation.kernel = kernel_of(operation.op, computed_in(last), operation.stored, operation.computed);
      }
      if (own.stage == Stage::row && operation.op == Op::sum) take_factor(i, operation);
      program_->operations_.push_back(std::move(operation));
    }
    place_slots();
  }

  // A sum of a product with a number multiplies as it reads, where nobody else reads the product: the operation before.
  void take_factor(std::size_t i, Program::Operation& sum) {
    const std::size_t product = operand(i, 0);
    const ScaledSumKernel kernel = kernels().scaled_sum[static_cast<int>(sum.computed)];
    const bool last = !program_->operations_.empty() && program_->operations_.back().node == static_cast<int>(product);
    if (!kernel || !last || node(product).op != Op::mul || node(product).type.dtype != sum.computed ||
        placed(product).stage != Stage::row || placed(product).whole || uses(product) != 1)
      return;
    const Node& factor = node(operand(product, 1));
    if (factor.op != Op::constant || factor.attributes<Constant>().is_size()) return;
    sum.scaled_sum = kernel;
    sum.scale = factor.attributes<Constant>().as_number(factor.type.dtype);
    sum.operands = {static_cast<int>(operand(product, 0))};
    program_->operations_.pop_back();
    placed(product).base = -1;
  }
  int uses(std::size_t i) const {
    int count = 0;
    for (const Tensor& value : graph().nodes)
      for (const Tensor& input : value.node()->inputs()) count += graph().number(input) == i;
    return count;
  }

  // A slot is taken again after the last operation that reads it, by the result of that operation itself where it has
  // the size.
  void place_slots() {
    Program& p = *program_;
    std::vector<int> last_use(sizes_.size(), -1);
    for (std::size_t s = 0; s < p.operations_.size(); ++s)
      for (const int from : p.operations_[s].operands)
        if (placed(static_cast<std::size_t>(from)).base >= 0)
          last_use[static_cast<std::size_t>(placed(static_cast<std::size_t>(from)).base)] = static_cast<int>(s);
    std::vector<int> free;
    for (std::size_t s = 0; s < p.operations_.size(); ++s) {
      const Program::Operation& operation = p.operations_[s];
      std::vector<int> released;
      for (const int from : operation.operands) {
        const int base = placed(static_cast<std::size_t>(from)).base;
        if (base < 0 || last_use[static_cast<std::size_t>(base)] != static_cast<int>(s)) continue;
        const int slot = placed(static_cast<std::size_t>(base)).slot;
        if (slot >= 0 && std::find(released.begin(), released.end(), slot) == released.end()) released.push_back(slot);
      }
      if (operation.kind == Kind::pointwise) free.insert(free.end(), released.begin(), released.end());
      Program::NodePlace& own = placed(static_cast<std::size_t>(operation.node));
      if (own.stage == Stage::row && !own.whole) {
        const std::size_t bytes = storage_bytes(operation.stored, own.inner);
        const auto fits = std::find_if(free.begin(), free.end(),
                                       [&](int slot) { return p.slots_[static_cast<std::size_t>(slot)] == bytes; });
        if (fits != free.end()) {
          own.slot = *fits;
          free.erase(fits);
        } else {
          own.slot = static_cast<int>(p.slots_.size());
          p.slots_.push_back(bytes);
        }
      }
      if (operation.kind != Kind::pointwise) free.insert(free.end(), released.begin(), released.end());
    }
    for (Program::NodePlace& view : p.placed_)
      if (view.stage == Stage::view && view.base >= 0) view.slot = p.placed_[static_cast<std::size_t>(view.base)].slot;
  }

  // False where one row is too long to stay in the cache: its parts are then better shared out to threads.
  bool choose_block() {
    Program& p = *program_;
    std::size_t bytes = p.widest_ * 8;  // what is given and taken as a whole passes through the cache too
    for (const std::size_t slot : p.slots_) bytes += slot;
    if (bytes > longest_row) return false;
    p.block_ = static_cast<std::int64_t>(std::clamp<std::size_t>(block_bytes / bytes, 1, 4096));
    if (p.block_ > vector_length) p.block_ -= p.block_ % vector_length;
    for (const Program::Operation& operation : p.operations_)
      if (placed(static_cast<std::size_t>(operation.node)).stage == Stage::folded)
        p.unit_ =
            std::max(p.unit_, inner(static_cast<std::size_t>(operation.operands[0])) == 1 ? row_chunk : column_chunk);
    if (p.unit_ == row_chunk) p.block_ = row_chunk;
    if (p.unit_ == column_chunk)
      while (column_chunk % p.block_) --p.block_;
    return true;
  }

  std::shared_ptr<Program> program_ = std::make_shared<Program>();
  std::vector<Sizes> sizes_;
  std::vector<Take> takes_;  // by node
  Sizes domain_;
};

std::shared_ptr<const Program> Program::lower(const Graph& body) { return Lowering(body).run(); }

}  // namespace weft::eager
