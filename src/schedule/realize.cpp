#include "schedule/realize.hpp"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "ir/offload_mark.hpp"
#include "schedule/score.hpp"

namespace weft {
namespace {

constexpr std::size_t most_loads = 8, most_readers = 8;
constexpr std::size_t most_operations = 24, most_slow_functions = 2;
constexpr int most_uses = 1000;

// Of what a value is computed where it is read by a kernel that does not hold it.
struct Recipe {
  std::vector<std::uint32_t> from;         // values in memory, and reductions that would be stored for it
  std::vector<std::uint32_t> nodes = {};   // what is computed, each once, for an element
  std::vector<std::uint32_t> shared = {};  // of these, what others in the value's own kernel read as well
  std::size_t expanded = 0;                // nodes, each as often as it is read
  bool moves = false;                      // reads what is below at other indices: each of them computes it
  bool once = false;                       // has work that is never done twice
  bool tests = false;                      // asks where an element is, as a pad does
  bool known = true;                       // else it is too long
};

// The kernels that read a value: groups; the numbers after theirs are the assembled values.
struct Readers {
  std::vector<int> kernels;  // without the value's own; some where there are many
  std::vector<int> early;    // of a copied value: those that run before it has memory, and compute it
  int uses = 0;              // nodes, outputs of the graph
  bool inside = false;       // its own kernel reads it
  int places = 0;            // shifted ones, as slices and windows are, at which an element is read
  bool stretched = false;    // an element is read more than once, or asked for where there is none
  bool windowed = false;     // overlapping windows read it
};

class Realizer {
 public:
  Realizer(const Graph& graph, Grouping& grouping, Device device, bool borders)
      : graph_(graph),
        grouping_(grouping),
        borders_(borders),
        score_(graph, device),
        readers_(graph.nodes.size()),
        recipes_(graph.nodes.size()),
        alive_(grouping.groups.size(), false) {}

  void run() {
    find_readers();
    for (const Tensor& value : graph_.nodes)
      if (const Placement& placement = grouping_[value]; placement.role == Role::grouped && placement.realized)
        alive_[static_cast<std::size_t>(placement.group)] = true;
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) decide(i);
  }

 private:
  const Node& node(std::uint32_t i) const { return *graph_.nodes[i].node(); }
  bool has_memory(std::uint32_t i) const {
    const Placement& placement = grouping_.nodes[i];
    return placement.realized || (placement.role != Role::inlined && placement.role != Role::grouped);
  }

  void find_readers() {
    for (const Tensor& output : graph_.outputs) ++readers_[graph_.number(output)].uses;
    for (std::uint32_t i = static_cast<std::uint32_t>(graph_.nodes.size()); i-- > 0;) {
      const Placement& placement = grouping_.nodes[i];
      const Readers& own = readers_[i];
      const bool computes = placement.role != Role::inlined;
      const bool inlined = !computes || !own.early.empty();
      const int self =
          placement.role == Role::grouped ? placement.group : static_cast<int>(grouping_.groups.size() + i);
      for (const Tensor& operand : node(i).inputs()) {
        const std::uint32_t below = graph_.number(operand);
        Readers& seen = readers_[below];
        seen.uses = std::min(seen.uses + (inlined ? std::max(own.uses, 1) : 1), most_uses);
        seen.stretched |= inlined ? own.stretched || node(i).op == Op::expand : node(i).op == Op::gather || spreads(i);
        seen.places = std::min(seen.places + (inlined ? shifted(i) : is_part(i)), most_uses);
        seen.windowed |= node(i).op == Op::windows || (inlined && own.windowed);
        if (computes) add_reader(below, self);
        for (const int kernel : computes ? own.early : own.kernels) add_reader(below, kernel);
      }
    }
  }
  // A concatenation asks each part at each of its own elements, a pad between zeros at more than there are.
  bool is_part(std::uint32_t i) const { return info(node(i).op).kind == OpKind::assemble; }
  bool spreads(std::uint32_t i) const {
    return is_part(i) && (node(i).op == Op::concat || node(i).attributes<Pad>().interior > 0);
  }
  int shifted(std::uint32_t i) const {
    const bool shifts = node(i).op == Op::slice || node(i).op == Op::windows;
    return shifts ? std::max(readers_[i].places, 1) : readers_[i].places;
  }
  void add_reader(std::uint32_t value, int kernel) {
    const Placement& placement = grouping_.nodes[value];
    Readers& readers = readers_[value];
    if (placement.chosen && !placement.realized && is_product(kernel)) return;  // it reads the table
    const bool inside = placement.role == Role::grouped && placement.group == kernel;
    readers.inside |= inside;
    const bool early = placement.copied && !inside && depth_of(kernel) <= placement.depth;
    std::vector<int>& kernels = early ? readers.early : readers.kernels;
    if (!inside && kernels.size() < most_readers && std::find(kernels.begin(), kernels.end(), kernel) == kernels.end())
      kernels.push_back(kernel);
    if (has_memory(value)) loaded_.insert(key(kernel, value));
  }
  static std::uint64_t key(int kernel, std::uint32_t value) { return static_cast<std::uint64_t>(kernel) << 32 | value; }

  void decide(std::uint32_t i) {
    Placement& placement = grouping_.nodes[i];
    if (has_memory(i)) return keep(i);
    Recipe& recipe = recipes_[i] = recipe_of(i);
    if (placement.role != Role::grouped) return;
    const Readers& readers = readers_[i];
    const bool reduces = walks(node(i)) && !reduces_nothing(node(i));
    if (readers.kernels.empty()) {
      // What is not done again elsewhere is stored where a value above it is done again.
      const bool once = !is_pointwise(node(i).op) && is_slow(node(i));
      if (reduces || (once && readers.uses > 1)) recipe = {{i}};
      return;
    }
    if (!reduces && recipe.known && computed_again(i)) {
      for (const std::uint32_t value : recipe.from) {
        if (!has_memory(value)) store(value);
        for (const int kernel : readers.kernels) loaded_.insert(key(kernel, value));
      }
      return;
    }
    store(i);
  }
  void store(std::uint32_t i) {
    grouping_.nodes[i].realized = true;
    alive_[static_cast<std::size_t>(grouping_.nodes[i].group)] = true;
    keep(i);
  }
  void keep(std::uint32_t i) { recipes_[i] = {{i}}; }

  Recipe recipe_of(std::uint32_t i) const {
    Recipe recipe;
    for (const Tensor& operand : node(i).inputs()) {
      const Recipe& below = recipes_[graph_.number(operand)];
      recipe.known &= below.known;
      recipe.expanded = std::min(recipe.expanded + below.expanded, 2 * most_operations);
      recipe.moves |= below.moves;
      recipe.once |= below.once;
      recipe.tests |= below.tests;
      add(recipe.from, below.from);
      add(recipe.nodes, below.nodes);
      add(recipe.shared, readers_[graph_.number(operand)].uses > 1 ? below.nodes : below.shared);
    }
    const bool computes = !recipe.nodes.empty() || !recipe.known;
    const OpKind kind = info(node(i).op).kind;
    if (!is_view(node(i).op) && kind != OpKind::leaf) {
      recipe.nodes.push_back(i);
      recipe.expanded += node(i).op == Op::concat ? node(i).operand_count : 1;
      recipe.tests |= is_part(i);
      recipe.once |= !is_pointwise(node(i).op) && is_slow(node(i));
    }
    const bool shifts = node(i).op == Op::slice || node(i).op == Op::windows || node(i).op == Op::permute;
    recipe.moves |= is_part(i) || (shifts && computes);
    const std::size_t operations = recipe.moves ? recipe.expanded : recipe.nodes.size();
    recipe.known &= recipe.from.size() <= most_loads && operations <= most_operations;
    if (!recipe.known) recipe.from.clear(), recipe.nodes.clear(), recipe.shared.clear();
    return recipe;
  }
  static void add(std::vector<std::uint32_t>& all, const std::vector<std::uint32_t>& more) {
    for (const std::uint32_t each : more)
      if (std::find(all.begin(), all.end(), each) == all.end()) all.push_back(each);
  }
  std::size_t slow_functions(const Recipe& recipe) const {
    return static_cast<std::size_t>(std::count_if(recipe.nodes.begin(), recipe.nodes.end(), [&](std::uint32_t n) {
      return is_pointwise(node(n).op) && is_slow(node(n));
    }));
  }
  // For an element, in bytes.
  double work(const std::vector<std::uint32_t>& nodes) const {
    double total = 0;
    for (const std::uint32_t n : nodes) total += Score::work(is_pointwise(node(n).op) ? info(node(n).op).cost : 1);
    return total;
  }

  // On a device each thread of a kernel computes what is one number for the kernel, such as the corrections of AdamW's
  // moments: a slow one is computed once instead, by a kernel of its own.
  bool is_slow_for_each_thread(std::uint32_t i) const {
    if (!node(i).type.shape.element_count().same(Dim(1))) return false;
    const auto is_walked = [&](int kernel) { return walked_by(kernel) > 1; };
    return std::ranges::any_of(recipes_[i].nodes, [&](std::uint32_t n) { return is_slow(node(n)); }) &&
           std::ranges::any_of(readers_[i].kernels, is_walked);
  }
  // Whether it takes less, in bytes, when those who read the value compute it.
  bool computed_again(std::uint32_t i) const {
    const Recipe& recipe = recipes_[i];
    const Readers& readers = readers_[i];
    const int group = grouping_.nodes[i].group;
    if (grouping_.layouts[i].window_of >= 0) return false;  // its reader does not copy it
    if (recipe.tests && readers.windowed) return false;     // each window would ask again
    const auto is_beyond = [&](int kernel) { return region_of(kernel) != region_of(group); };
    if (borders_ && std::ranges::any_of(readers.kernels, is_beyond)) return false;
    if (score_.inlines_in_each_thread() && is_slow_for_each_thread(i)) return false;
    const double own = score_.elements(node(i).type.shape), bytes = Score::bytes(node(i), own);
    // Elements that a kernel computes, or loads.
    const auto times = [&](int kernel) {
      const double walked = walked_by(kernel);
      return readers.stretched ? std::max(own, walked) : std::min(own, walked * readers.uses);
    };
    const auto read = [&](std::uint32_t value, double elements) {
      return Score::bytes(node(value), std::min(score_.elements(node(value).type.shape), elements));
    };
    double computed = 0;
    for (const int kernel : readers.kernels) computed += std::max(times(kernel), walked_by(kernel) * readers.places);
    const bool once = !readers.inside && readers.kernels.size() < most_readers && computed <= own;
    // A few slow functions are done again where that is less than their value, but not at more elements than there are.
    const bool only_moved = once && recipe.shared.empty();
    const std::size_t slow = slow_functions(recipe);
    if ((recipe.once || slow > (recipe.moves ? 0 : most_slow_functions)) && !only_moved) return false;
    if (slow > 0 && (readers.stretched || readers.places > 0) && computed > own) return false;
    const bool alive =
        alive_[static_cast<std::size_t>(group)] ||
        !std::all_of(recipe.from.begin(), recipe.from.end(), [&](auto value) { return has_memory(value); });
    double stored = bytes, again = 0;
    if (!alive) stored += score_.launch();
    for (const std::uint32_t value : recipe.from) {
      if (!has_memory(value))
        again += score_.bytes(node(value));
      else if (!alive)
        stored += read(value, own);
    }
    for (const int kernel : readers.kernels) {
      stored += read(i, times(kernel));
      for (const std::uint32_t value : recipe.from)
        if (!loaded_.contains(key(kernel, value))) again += read(value, times(kernel));
    }
    const double whole = work(recipe.nodes), moved = readers.inside ? 0 : (whole - work(recipe.shared)) * own;
    return again + std::max(0.0, whole * computed - moved) < stored;
  }
  bool is_product(int kernel) const {
    const auto index = static_cast<std::size_t>(kernel), groups = grouping_.groups.size();
    return index >= groups && node(static_cast<std::uint32_t>(index - groups)).op == Op::matmul;
  }
  int depth_of(int kernel) const {
    const auto index = static_cast<std::size_t>(kernel);
    if (index < grouping_.groups.size()) return grouping_.groups[index].depth;
    return grouping_.nodes[index - grouping_.groups.size()].depth;
  }
  std::uint32_t region_of(int kernel) const {
    const auto index = static_cast<std::size_t>(kernel);
    if (index < grouping_.groups.size()) return grouping_.groups[index].region;
    return weft::region_of(node(static_cast<std::uint32_t>(index - grouping_.groups.size())));
  }
  double walked_by(int kernel) const {
    const auto index = static_cast<std::size_t>(kernel);
    if (index < grouping_.groups.size()) return score_.elements(grouping_.groups[index].domain);
    return score_.elements(node(static_cast<std::uint32_t>(index - grouping_.groups.size())).type.shape);
  }

  const Graph& graph_;
  Grouping& grouping_;
  const bool borders_;
  const Score score_;
  std::vector<Readers> readers_;
  std::vector<Recipe> recipes_;
  std::vector<bool> alive_;                   // by group: it stores something
  std::unordered_set<std::uint64_t> loaded_;  // by kernel and value
};

}  // namespace

std::vector<bool> read_through_expansions(const Graph& graph) {
  std::vector<bool> broadcast(graph.nodes.size(), true);
  for (const Tensor& output : graph.outputs) broadcast[graph.number(output)] = false;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = *graph.nodes[i].node();
    if (node.op == Op::expand || (is_view(node.op) && broadcast[i])) continue;
    for (const Tensor& operand : node.inputs()) broadcast[graph.number(operand)] = false;
  }
  return broadcast;
}

int operations_where_read(const Grouping& grouping, const Node& node) {
  int count = 1;
  for (const Tensor& operand : node.inputs()) {
    const Node* below = operand.node();
    for (int hops = 0; is_view(below->op) && hops < 64; ++hops) below = below->input(0).node();
    count += grouping.nodes[grouping.number(*below)].operations;
  }
  return count;
}

bool is_slow(const Node& node) {
  if (walks(node) || node.op == Op::gather || node.op == Op::random_bits) return true;
  return info(node.op).cost > 8;
}

bool reads_in_place(const Grouping& grouping, const Providers& providers, Device device, const Node& node,
                    const Tensor& operand, const Tensor& base) {
  IndexVector index;
  const Shape& shape = type_of(operand).shape;
  if (grouping.layouts[grouping.number(*base.node())].channels_last && operand.node() == base.node() &&
      providers.gains_with_channels_last(node, device))
    return true;
  for (int i = 0; i < shape.rank(); ++i) index.push_back(dims::axis(i, shape[i]));
  IndexVector mapped = index;
  for (const Node* view = operand.node(); view != base.node(); view = view->input(0).node())
    mapped = map_through_view(*view, mapped);
  const Dim offset = grouping.memory_index(*base.node(), mapped);
  bool packed = base.node()->op == Op::data && node.op == Op::matmul;  // a constant is packed once (schedule.cpp)
  std::vector<Dim> strides;
  for (int i = 0; i < shape.rank(); ++i) {
    auto [linear, stride] = dims::linear_in(offset, index[static_cast<std::size_t>(i)]);
    if (!linear) return false;
    packed &= shape[i].is_constant();
    strides.push_back(stride);
  }
  Dim begin = offset;  // of the first element
  for (std::size_t i = 0; i < strides.size(); ++i) begin = begin - index[i] * strides[i];
  return packed || providers.reads(node, device, shape, begin, strides);
}

const Node* chosen_matrices(const Grouping& grouping, const Providers& providers, Device device, const Node& node,
                            const Tensor& operand) {
  constexpr int rank = 3;  // one batch axis
  if (node.op != Op::matmul || type_of(operand).shape.rank() != rank) return nullptr;
  Tensor base = operand;
  std::array<std::size_t, rank> axis{0, 1, 2};  // of the gather, of each of the operand
  for (; base.node()->op == Op::permute; base = base.node()->input(0))
    for (std::size_t& each : axis) each = base.node()->attributes<Permute>().axes[each];
  const Node& gather = *base.node();
  if (gather.op != Op::gather || axis[0] != 0) return nullptr;
  const Placement& placement = grouping.nodes[grouping.number(gather)];
  if (placement.role != Role::grouped || placement.realized) return nullptr;
  const Node &table = *gather.input(0).node(), &index = *gather.input(1).node();
  const auto lies_in_order = [&](const Node& value) {
    return !value.layout && grouping.layouts[grouping.number(value)].is_contiguous();
  };
  const Placement& source = grouping.nodes[grouping.number(table)];
  const Dim count = table.type.shape[0];
  const bool has_memory = source.role != Role::inlined && (source.role == Role::leaf || source.realized);
  if (!has_memory || !lies_in_order(table) || !lies_in_order(index) || index.type.shape.rank() != 1 ||
      index.type.dtype != DType::i64 || !count.is_constant() || count.constant() < 1)
    return nullptr;
  const std::vector<Dim> of_table = contiguous_strides(table.type.shape);
  std::vector<Dim> strides;
  for (const std::size_t each : axis) strides.push_back(of_table[each]);
  const bool reads =
      providers.reads_chosen(node, device) && providers.reads(node, device, type_of(operand).shape, Dim(0), strides);
  return reads ? &gather : nullptr;
}

void realize(const Graph& graph, Grouping& grouping, Device device, bool borders) {
  Realizer(graph, grouping, device, borders).run();
}

}  // namespace weft
