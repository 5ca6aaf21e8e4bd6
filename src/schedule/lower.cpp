#include "schedule/lower.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/fail.hpp"
#include "loop/roundings.hpp"
#include "schedule/kernel_stages.hpp"
#include "schedule/schedule.hpp"

namespace weft {
namespace {

using loop::Instruction;
using loop::Kernel;
using loop::Kind;
using loop::Level;

class Lowering {
 public:
  Lowering(const LoweringContext& context, const Group& walked, int group)
      : context_(context), walked_(walked), group_(group) {
    for (int i = 0; i < walked.domain.rank(); ++i)
      kernel_.axes.push_back({walked.domain[i], walked.reduces && walked.inner[i]});
  }

  Kernel run(std::span<const StorePoint> stores) {
    for (const StorePoint& point : stores) {
      Instruction store;
      store.kind = Kind::store;
      store.dtype = point.dtype;
      store.args[0] = value_at(point.value, point.index);
      store.buffer = buffer(point.buffer, point.dtype, point.elements, true);
      store.index = point.target;
      emit(store);
    }
    return std::move(kernel_);
  }

  // For people: what these instructions of the kernel compute, each operation once, the first of them by name.
  std::string operations_text(const std::vector<int>& instructions) const {
    static constexpr std::size_t most = 8;
    std::vector<std::string> texts;
    for (const int each : instructions)
      if (const auto found = operations_.find(each); found != operations_.end())
        if (std::string text = operation_text(*found->second); std::ranges::find(texts, text) == texts.end())
          texts.push_back(std::move(text));
    std::string all;
    for (std::size_t i = 0; i < std::min(texts.size(), most); ++i) all += (i ? "; " : "") + texts[i];
    if (texts.size() > most) all += concat_text("; and ", texts.size() - most, " more");
    return all;
  }

 private:
  int buffer(int value, DType dtype, Dim elements, bool written) {
    for (std::size_t b = 0; b < kernel_.buffers.size(); ++b)
      if (kernel_.buffers[b].value == value && kernel_.buffers[b].written == written) return static_cast<int>(b);
    kernel_.buffers.push_back({dtype, written, value, elements});
    return static_cast<int>(kernel_.buffers.size()) - 1;
  }

  // Where an index expression varies: over which axes, and with which loaded values.
  void raise(Instruction& instruction, Dim index) {
    dims::any_atom(index, [&](const DimNode& atom) {
      if (atom.kind == DimKind::axis) {
        Level level = kernel_.axes[static_cast<std::size_t>(atom.number)].inner ? Level::inner : Level::outer;
        instruction.level = std::max(instruction.level, level);
      } else if (atom.kind == DimKind::value) {
        raise(instruction, static_cast<int>(atom.number));
      }
      return false;
    });
  }
  void raise(Instruction& instruction, int arg) {
    const Instruction& operand = kernel_.body[static_cast<std::size_t>(arg)];
    instruction.level = std::max(instruction.level, operand.level);
    instruction.phase = std::max(instruction.phase, operand.phase);
  }

  int emit(Instruction instruction) {
    instruction.level = Level::once;
    instruction.phase = 0;
    for (std::int32_t arg : instruction.args)
      if (arg >= 0) raise(instruction, arg);
    raise(instruction, instruction.index);
    const bool over_carried = instruction.is(loop::ReductionKind::over_carried);
    if (instruction.kind == Kind::scan || over_carried) instruction.level = Level::inner;
    if (instruction.kind == Kind::reduce && !over_carried) {
      instruction.level = Level::outer;
      ++instruction.phase;
    }
    kernel_.body.push_back(instruction);
    return static_cast<int>(kernel_.body.size()) - 1;
  }

  int constant(DType dtype, double number, std::int64_t integer) {
    Instruction instruction;
    instruction.kind = Kind::constant;
    instruction.dtype = dtype;
    if (is_floating(dtype))
      std::memcpy(&instruction.bits, &number, sizeof number);
    else
      instruction.bits = static_cast<std::uint64_t>(integer);
    for (std::size_t i = 0; i < kernel_.body.size(); ++i) {
      const Instruction& other = kernel_.body[i];
      if (other.kind == Kind::constant && other.dtype == dtype && other.bits == instruction.bits)
        return static_cast<int>(i);
    }
    return emit(instruction);
  }
  int cast(int value, DType dtype) {
    if (kernel_.body[static_cast<std::size_t>(value)].dtype == dtype) return value;
    Instruction instruction;
    instruction.kind = Kind::cast;
    instruction.dtype = dtype;
    instruction.args[0] = value;
    const int result = emit(instruction);
    zero_without_[result] = zero_without(value);
    return result;
  }
  int index_value(Dim index, DType dtype) {
    if (index.is_constant()) return constant(dtype, static_cast<double>(index.constant()), index.constant());
    Instruction instruction;
    instruction.kind = Kind::index;
    instruction.dtype = DType::i64;
    instruction.index = index;
    return cast(emit(instruction), dtype);
  }

  // Clamps an index to [0, size). The range check may run later; until it has, a bad index must not read out of bounds.
  int within(int value, Dim size) {
    auto [found, is_new] = clamped_.try_emplace({value, size.word()});
    if (!is_new) return found->second;
    Instruction instruction;
    instruction.kind = Kind::apply;
    instruction.dtype = DType::i64;
    instruction.op = Op::minimum;
    instruction.args[0] = value;
    instruction.args[1] = index_value(size - Dim(1), DType::i64);
    instruction.args[0] = emit(instruction);
    instruction.op = Op::maximum;
    instruction.args[1] = constant(DType::i64, 0, 0);
    return clamped_[{value, size.word()}] = emit(instruction);
  }

  using Key = std::pair<std::uint64_t, std::vector<std::uint64_t>>;

  int value_at(Tensor value, IndexVector index) {
    // Views first, without recursion: their chain may be long.
    while (true) {
      const Node& node = *value.node();
      if (has_memory(value)) return load(node, index);
      if (is_view(node.op))
        index = map_through_view(node, index);
      else if (!reduces_nothing(node) || node.op == Op::argmax || adds_to_zero(node))
        break;
      if (reduces_nothing(node) && type_of(node.input(0)).dtype != node.type.dtype)
        return cast(value_at(node.input(0), index), node.type.dtype);
      value = node.input(0);
    }
    Key key{value.word(), {static_cast<std::uint64_t>(where_.predicate)}};
    for (Dim dim : index) key.second.push_back(dim.word());
    if (auto found = memo_.find(key); found != memo_.end()) return found->second;
    int result = compute(*value.node(), index);
    operations_.try_emplace(result, value.node());
    if (context_.elides_roundings && context_.grouping[value].realized) result = kept(result);
    memo_.emplace(std::move(key), result);
    return result;
  }

  // What has memory is rounded for every reader, in the kernel that computes it too: a cast to its own dtype, which
  // elide_roundings keeps. Without it a value that two kernels compute has other bits in the one that computes a part
  // of it than in the one that reads that part from memory, and a maximum that one of them stores has no equal in the
  // other.
  int kept(int value) {
    Instruction instruction;
    instruction.kind = Kind::cast;
    instruction.dtype = kernel_.body[static_cast<std::size_t>(value)].dtype;
    if (!is_narrow_float(instruction.dtype)) return value;
    instruction.args[0] = value;
    const int result = emit(instruction);
    zero_without_[result] = zero_without(value);
    return result;
  }

  // A sum of one float starts from 0 as every sum does, so that -0 becomes 0.
  static bool adds_to_zero(const Node& node) {
    return (node.op == Op::sum || node.op == Op::cumsum) && is_floating(node.type.dtype);
  }

  bool has_memory(const Tensor& value) const {
    return weft::has_memory(context_.grouping, value, group_, walked_.depth);
  }

  int load(const Node& node, const IndexVector& index) {
    Instruction instruction;
    instruction.kind = Kind::load;
    instruction.dtype = node.type.dtype;
    instruction.index = without_exact_quotients(context_.grouping.memory_index(node, index));
    instruction.buffer = buffer(context_.buffer_of(node), node.type.dtype, context_.elements_of(node), false);
    instruction.args[0] = where_.predicate;
    auto key = std::tuple(instruction.buffer, instruction.index.word(), where_.predicate);
    if (auto found = loads_.find(key); found != loads_.end()) return found->second;
    const int result = emit(instruction);
    zero_without_[result] = where_.tests;
    return loads_[key] = result;
  }

  // ---- pads and concatenations ----

  // Where a value is wanted: where all these tests hold, and the same as one bool; no test: everywhere.
  struct Where {
    std::vector<int> tests = {};  // sorted
    int predicate = -1;
  };

  // Whether 0 <= index. 0 <= floor(x / d) + r where 0 <= x + r*d, and 0 <= r - floor(x / d) where 0 <= (r + 1)*d - 1 -
  // x: so a test divides nothing.
  int test(Dim index) {
    for (const DimTerm& term : dims::terms(index)) {
      if (term.factors.size() != 1 || term.factors[0]->kind != DimKind::floor_divide) continue;
      const Dim quotient = Dim::from_node(term.factors[0]), x = term.factors[0]->left, d = term.factors[0]->right;
      if (!d.is_constant() || d.constant() < 1) continue;
      if (term.coefficient == 1) return test(x + (index - quotient) * d);
      if (term.coefficient == -1) return test((index + quotient + Dim(1)) * d - Dim(1) - x);
    }
    if (const auto found = made_tests_.find(index.word()); found != made_tests_.end()) return found->second;
    Instruction instruction;
    instruction.kind = Kind::test;
    instruction.dtype = DType::boolean;
    instruction.index = index;
    return made_tests_[index.word()] = emit(instruction);
  }
  // c*d * floor(x / d) is c * x where a test says that d divides x: the gradient of a strided slice reads neighbours.
  Dim without_exact_quotients(Dim index) const {
    for (const DimTerm& term : dims::terms(index)) {
      if (term.factors.size() != 1 || term.factors[0]->kind != DimKind::floor_divide) continue;
      const Dim x = term.factors[0]->left, d = term.factors[0]->right;
      if (!d.is_constant() || d.constant() < 1 || term.coefficient % d.constant() != 0) continue;
      const auto divides = made_tests_.find((Dim(0) - x % d).word());
      if (divides == made_tests_.end() ||
          !std::binary_search(where_.tests.begin(), where_.tests.end(), divides->second))
        continue;
      const Dim quotient = Dim::from_node(term.factors[0]);
      return without_exact_quotients(index - Dim(term.coefficient) * quotient +
                                     Dim(term.coefficient / d.constant()) * x);
    }
    return index;
  }
  int both(int a, int b) {
    if (const auto found = conjunctions_.find({a, b}); found != conjunctions_.end()) return found->second;
    return conjunctions_[{a, b}] = apply(Op::bitwise_and, DType::boolean, {a, b});
  }
  int apply(Op op, DType dtype, std::initializer_list<int> args) {
    Instruction instruction;
    instruction.kind = Kind::apply;
    instruction.op = op;
    instruction.dtype = dtype;
    std::copy(args.begin(), args.end(), instruction.args);
    return emit(instruction);
  }
  // Where, besides, none of these is negative; nothing if that is nowhere.
  std::optional<Where> where_also(const std::vector<Dim>& wanted) {
    Where result = where_;
    for (const Dim index : wanted) {
      if (dims::proves_less(index, Dim(0))) return std::nullopt;
      if (!dims::proves_nonnegative(index)) result.tests.push_back(test(index));
    }
    std::sort(result.tests.begin(), result.tests.end());
    result.tests.erase(std::unique(result.tests.begin(), result.tests.end()), result.tests.end());
    if (result.tests.empty()) return result;
    // Tests that are one for a whole row come first, so that together they are one bool for it too.
    std::vector<int> order = result.tests;
    int last = static_cast<int>(kernel_.axes.size()) - 1;
    while (last > 0 && kernel_.axes[static_cast<std::size_t>(last)].extent.same(Dim(1))) --last;
    std::stable_partition(order.begin(), order.end(), [&](int i) {
      return !dims::any_atom(kernel_.body[static_cast<std::size_t>(i)].index, [&](const DimNode& atom) {
        return atom.kind == DimKind::value || (atom.kind == DimKind::axis && atom.number == last);
      });
    });
    result.predicate = order[0];
    for (std::size_t i = 1; i < order.size(); ++i) result.predicate = both(result.predicate, order[i]);
    return result;
  }
  // The value at this index where the predicate `where` holds. Undefined where it does not.
  int value_where(const Where& where, const Tensor& value, const IndexVector& index) {
    const Where outside = std::exchange(where_, where);
    const int result = value_at(value, index);
    where_ = outside;
    return result;
  }
  const std::vector<int>& zero_without(int value) const {
    const auto found = zero_without_.find(value);
    return found == zero_without_.end() ? no_tests_ : found->second;
  }

  int padded(const Node& node, const IndexVector& index) {
    const PartElement element = map_into_part(node, 0, index);
    const std::optional<Where> inside = where_also(element.tests);
    const auto zero = [&] { return constant(node.type.dtype, 0, 0); };
    if (!inside || type_of(node.input(0)).shape.element_count().same(Dim(0))) return zero();
    const int value = value_where(*inside, node.input(0), element.index);
    const std::vector<int>& known = zero_without(value);
    if (std::includes(known.begin(), known.end(), inside->tests.begin(), inside->tests.end())) return value;
    const int result = apply(Op::where, node.type.dtype, {inside->predicate, value, zero()});
    zero_without_[result] = inside->tests;
    return result;
  }

  // Part by part: where the index is below the end of one, that one.
  int joined(const Node& node, const IndexVector& index) {
    std::vector<std::pair<int, Dim>> parts;  // its value, and what is not negative below its end
    for (std::size_t i = 0; i < node.operand_count; ++i) {
      PartElement element = map_into_part(node, i, index);
      const Dim below_end = element.tests.back();
      if (i + 1 == node.operand_count) element.tests.pop_back();
      const std::optional<Where> inside = where_also(element.tests);
      if (!inside || type_of(node.input(i)).shape.element_count().same(Dim(0))) continue;
      parts.emplace_back(value_where(*inside, node.input(i), element.index), below_end);
      if (dims::proves_nonnegative(below_end)) break;
    }
    if (parts.empty()) return constant(node.type.dtype, 0, 0);
    int result = parts.back().first;
    for (std::size_t i = parts.size() - 1; i-- > 0;) {
      const auto& [value, below_end] = parts[i];
      const std::vector<int>&one = zero_without(value), &other = zero_without(result);
      std::vector<int> common;
      std::set_intersection(one.begin(), one.end(), other.begin(), other.end(), std::back_inserter(common));
      result = apply(Op::where, node.type.dtype, {test(below_end), value, result});
      zero_without_[result] = std::move(common);
    }
    return result;
  }

  int compute(const Node& node, const IndexVector& index) {
    switch (node.op) {
      case Op::constant: {
        const auto& number = node.attributes<Constant>();
        if (number.is_size()) return index_value(number.size, node.type.dtype);
        return constant(node.type.dtype, number.as_number(node.type.dtype), number.as_integer());
      }
      case Op::pad: return padded(node, index);
      case Op::concat: return joined(node, index);
      case Op::iota: return index_value(index[node.attributes<Along>().axis], node.type.dtype);
      case Op::cast: return cast(value_at(node.input(0), index), node.type.dtype);
      case Op::bitcast: {
        Instruction instruction;
        instruction.kind = Kind::bitcast;
        instruction.dtype = node.type.dtype;
        instruction.args[0] = value_at(node.input(0), index);
        return emit(instruction);
      }
      case Op::random_bits: {
        Instruction instruction;
        instruction.kind = Kind::random_bits;
        instruction.dtype = DType::i64;
        instruction.args[0] = value_at(node.input(0), {});
        instruction.args[1] = value_at(node.input(1), {});
        instruction.index = linear_index(node.type.shape, index);
        return cast(emit(instruction), node.type.dtype);
      }
      case Op::gather: {
        auto lead = static_cast<std::ptrdiff_t>(type_of(node.input(1)).shape.rank());
        int row = value_at(node.input(1), IndexVector(index.begin(), index.begin() + lead));
        Dim rows = type_of(node.input(0)).shape[0];
        // Of a table of no rows nothing is read: no index is right, and the check will say so.
        const std::optional<Where> has_rows = where_also({rows - Dim(1)});
        if (!has_rows) return constant(node.type.dtype, 0, 0);
        IndexVector table{dims::value(within(row, rows), rows)};
        table.insert(table.end(), index.begin() + lead, index.end());
        return value_where(*has_rows, node.input(0), table);
      }
      case Op::argmax:
        if (reduces_nothing(node)) return constant(DType::i64, 0, 0);
        return reduce(node, index);
      case Op::sum:
      case Op::cumsum: {
        if (!reduces_nothing(node)) return reduce(node, index);
        Instruction instruction;
        instruction.kind = Kind::apply;
        instruction.op = Op::add;
        instruction.dtype = node.type.dtype;
        instruction.args[0] = value_at(node.input(0), index);
        instruction.args[1] = constant(node.type.dtype, 0, 0);
        return emit(instruction);
      }
      default: break;
    }
    if (walks(node)) return reduce(node, index);
    WEFT_CHECK(info(node.op).kind == OpKind::pointwise, "%", context_.grouping.number(node), " ", info(node.op).name,
               " has no memory and no formula");
    Instruction instruction;
    instruction.kind = Kind::apply;
    instruction.op = node.op;
    instruction.dtype = node.type.dtype;
    for (std::size_t i = 0; i < node.operand_count; ++i) instruction.args[i] = value_at(node.input(i), index);
    return emit(instruction);
  }

  // What combines the elements of a reduction or a scan. Scans have one more.
  static Op combination(Op op) {
    switch (op) {
      case Op::cumsum: return Op::sum;
      case Op::cumprod: return Op::prod;
      case Op::cummax: return Op::amax;
      case Op::cummin: return Op::amin;
      default: return op;
    }
  }
  // A reduction, or a scan.
  int reduce(const Node& node, const IndexVector& index) {
    WEFT_CHECK(context_.grouping.nodes[context_.grouping.number(node)].group == group_ && group_ >= 0, "%",
               context_.grouping.number(node), " ", info(node.op).name, " is read by another kernel but has no memory");
    WEFT_CHECK(where_.predicate < 0, "%", context_.grouping.number(node), " ", info(node.op).name,
               " is wanted at some elements only");
    const bool column = context_.grouping.nodes[context_.grouping.number(node)].column;
    IndexVector own;
    WEFT_CHECK(column ? column_index(walked_, node.type.shape, own) : member_index(walked_, node.type.shape, own));
    for (std::size_t i = 0; i < own.size(); ++i) WEFT_CHECK(own[i].same(index[i]), "a reduction read at another index");
    IndexVector inside;
    const Type& from = type_of(node.input(0));
    WEFT_CHECK(member_index(walked_, from.shape, inside));
    Instruction instruction;
    instruction.kind = is_cumulative(node.op) ? Kind::scan : Kind::reduce;
    instruction.op = combination(node.op);
    DType dtype = node.op == Op::argmax ? from.dtype : node.type.dtype;
    instruction.args[0] = cast(value_at(node.input(0), inside), computed_in(dtype));
    if (column) instruction.reduction = loop::ReductionKind::over_carried;
    instruction.dtype = node.op == Op::argmax ? DType::i64 : computed_in(dtype);
    if (node.op == Op::argmax) {
      for (int i = 0; i < from.shape.rank(); ++i)
        if (node.attributes<Reduce>().axes[i] && !inside[static_cast<std::size_t>(i)].is_constant())
          instruction.index = inside[static_cast<std::size_t>(i)];
    }
    return cast(emit(instruction), node.type.dtype);
  }

  const LoweringContext& context_;
  const Group& walked_;
  int group_;
  Kernel kernel_;
  std::map<Key, int> memo_;
  std::map<int, const Node*> operations_;  // whose results instructions are
  std::map<std::tuple<std::int32_t, std::uint64_t, int>, int> loads_;
  std::map<std::uint64_t, int> made_tests_;
  std::map<std::pair<int, int>, int> conjunctions_;
  std::map<int, std::vector<int>> zero_without_;  // values that are 0 where one of these tests does not hold
  const std::vector<int> no_tests_;
  Where where_;  // where what is computed now is wanted
  std::map<std::pair<int, std::uint64_t>, int> clamped_;
};

}  // namespace

bool has_memory(const Grouping& grouping, const Tensor& value, int group, int depth) {
  const Placement& placement = grouping[value];
  if (placement.role == Role::leaf) return true;
  if (!placement.realized) return false;
  return placement.role != Role::grouped || (placement.group != group && placement.depth < depth);
}

loop::Stages lower(const LoweringContext& context, const Group& walked, int group, std::span<const StorePoint> stores) {
  Lowering lowering(context, walked, group);
  Kernel kernel = lowering.run(stores);
  const std::vector<int> left_out = context.elides_roundings ? loop::elide_roundings(kernel) : std::vector<int>();
  if (!left_out.empty())
    kernel.comments.push_back(concat_text(counted(std::ssize(left_out), "rounding", "roundings"),
                                          " to 16 bits left out: ", lowering.operations_text(left_out)));
  return kernel_stages(std::move(kernel), walked, group >= 0, context.device);
}

}  // namespace weft
