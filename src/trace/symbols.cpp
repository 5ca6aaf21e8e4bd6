#include "trace/symbols.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "ir/size_marks.hpp"
#include "trace/names.hpp"
#include "weft/compile.hpp"

namespace weft {

namespace {

int marked_axis(const char* operation, const Tensor& x, int axis, Loc loc) {
  if (!x.defined()) fail(operation, loc, "the tensor is undefined");
  const int rank = type_of(x).shape.rank(), normal = axis < 0 ? axis + rank : axis;
  if (normal < 0 || normal >= rank)
    fail(operation, loc, "axis ", axis, " is out of range for ", counted(rank, "axis", "axes"));
  return normal;
}

}  // namespace

void mark_dynamic(const Tensor& x, int axis, std::int64_t least, std::int64_t greatest, Loc loc) {
  const int marked = marked_axis("mark_dynamic", x, axis, loc);
  const Dim size = type_of(x).shape[marked];
  if (least > greatest) fail("mark_dynamic", loc, "the least size, ", least, ", is beyond the greatest, ", greatest);
  if (size.is_constant() && (size.constant() < least || size.constant() > greatest))
    fail("mark_dynamic", loc, "the size is ", size.constant(), ", which is not in ", least, " to ", greatest);
  set_size_mark(x, {marked, true, least, greatest});
}

void mark_static(const Tensor& x, int axis, Loc loc) {
  set_size_mark(x, {marked_axis("mark_static", x, axis, loc), false});
}

namespace detail {

using Sizes = Dynamic::Sizes;

bool is_comparable(const std::vector<std::uint64_t>& earlier, const CallContext& call) {
  const CallLayout& layout = call.layout();
  const Words& words = call.scratch.words;
  if (earlier.size() != words.size || earlier[0] != words.data()[0]) return false;
  for (std::size_t i = 0; i < layout.leaf_count(); ++i) {
    const LeafKind kind = layout.leaf(i).kind;
    const std::uint64_t was = earlier[layout.word(i)], is = words.data()[layout.word(i)];
    if (holds_tensor(kind) ? rank_of(was) != rank_of(is) : kind != LeafKind::number && was != is) return false;
  }
  return true;
}

std::vector<Guards::Symbol> choose_symbols(const CallContext& call) {
  const CallLayout& layout = call.layout();
  const std::uint64_t* const words = call.scratch.words.data();
  const Sizes mode = call.function.options.dynamic.sizes;
  std::vector<const Guards*> earlier;
  if (const Snapshot* snapshot = call.function.current.load(); snapshot && mode != Sizes::none)
    for (const auto& each : snapshot->list)
      if (is_comparable(each->guards.words, call)) earlier.push_back(&each->guards);
  const auto differs = [&](std::size_t word) {
    return std::ranges::any_of(earlier, [&](const Guards* guards) {
      return guards->words[word] != words[word] || (!guards->mask.empty() && guards->mask[word] == 0);
    });
  };
  const auto always_equal = [&](std::size_t a, std::size_t b) {
    return words[a] == words[b] &&
           std::ranges::all_of(earlier, [&](const Guards* guards) { return guards->words[a] == guards->words[b]; });
  };
  const auto was_small = [&](std::size_t word) {
    return words[word] < 2 ||
           std::ranges::any_of(earlier, [&](const Guards* guards) { return guards->words[word] < 2; });
  };
  const auto greatest_at = [&](std::size_t word) {
    std::uint64_t greatest = words[word];
    for (const Guards* guards : earlier) greatest = std::max(greatest, guards->words[word]);
    return static_cast<std::int64_t>(greatest);
  };
  std::vector<Guards::Symbol> symbols;
  for (const auto& [i, word, axis] : layout.sizes()) {
    const Leaf& leaf = layout.leaf(i);
    const bool persistent = leaf.kind == LeafKind::param || leaf.kind == LeafKind::buffer;
    const std::optional<SizeMark> mark = size_mark(leaf.tensor(), axis);
    const bool varies = !persistent && differs(word);
    const bool chosen = mark ? mark->dynamic : varies || (mode == Sizes::all && words[word] >= 2);
    if (!chosen) continue;
    // 0 and 1 are like other sizes where an earlier call had another one there; else tracing relies on 2 and more.
    const std::int64_t lower = mark                        ? std::max<std::int64_t>(mark->least, 0)
                               : varies && was_small(word) ? 0
                                                           : 2,
                       upper = mark ? mark->greatest : INT64_MAX;
    // A size that was marked may differ from the others: that it may not, the trace finds out (merge_equal).
    const auto same = std::ranges::find_if(symbols, [&, word = word](const Guards::Symbol& symbol) {
      return !mark && !symbol.marked && symbol.lower == lower && symbol.upper == upper &&
             always_equal(symbol.positions[0], word);
    });
    if (same == symbols.end())
      symbols.push_back({{word}, lower, upper, mark.has_value(), greatest_at(word)});
    else
      same->positions.push_back(word);
  }
  return symbols;
}

bool merge_equal(std::vector<Guards::Symbol>& symbols, const Graph& traced) {
  std::vector<std::size_t> into(symbols.size());  // the first of those that are equal
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = i;
  const auto number_of = [&](Dim dim) {
    const bool is_symbol = !dim.is_constant() && dim.node()->kind == DimKind::symbol;
    return is_symbol ? static_cast<std::size_t>(dim.node()->number) : symbols.size();
  };
  for (const DimCondition& condition : traced.conditions) {
    const std::size_t a = number_of(condition.left), b = number_of(condition.right);
    if (condition.kind != DimCondition::Kind::equal || !condition.holds || a >= into.size() || b >= into.size())
      continue;
    const auto [first, second] = std::minmax(into[a], into[b]);
    std::ranges::replace(into, std::size_t{second}, std::size_t{first});
  }
  std::vector<Guards::Symbol> merged;
  std::vector<std::size_t> place(symbols.size());
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    Guards::Symbol& symbol = symbols[i];
    if (into[i] == i) {
      place[i] = merged.size();
      merged.push_back(std::move(symbol));
      continue;
    }
    Guards::Symbol& other = merged[place[into[i]]];
    other.positions.insert(other.positions.end(), symbol.positions.begin(), symbol.positions.end());
    other.lower = std::max(other.lower, symbol.lower), other.upper = std::min(other.upper, symbol.upper);
    other.marked |= symbol.marked;
    other.greatest = std::max(other.greatest, symbol.greatest);
  }
  const bool any = merged.size() < symbols.size();
  symbols = std::move(merged);
  return any;
}

void check_marks(const CallContext& call, std::span<const Guards::Symbol> symbols, const Graph& traced) {
  const CallLayout& layout = call.layout();
  for (const DimCondition& condition : traced.conditions) {
    const bool pins = condition.kind == DimCondition::Kind::equal && condition.holds &&
                      (condition.left.is_constant() || condition.right.is_constant());
    const DimNode* const atom = condition.left.is_constant() ? condition.right.node() : condition.left.node();
    if (!pins || !atom || atom->kind != DimKind::symbol) continue;
    // That a size is 0 or 1 is asked by broadcasting and the like, and each answer is compiled.
    const Dim number = condition.left.is_constant() ? condition.left : condition.right;
    if (number.constant() < 2) continue;
    // Symbols after those of arguments are sizes that depend on values, which nothing marks.
    const auto symbol = static_cast<std::size_t>(atom->number);
    if (symbol >= symbols.size()) continue;
    for (const std::size_t word : symbols[symbol].positions) {
      const CallLayout::Size& size = *layout.size_at(word);
      const std::optional<SizeMark> mark = size_mark(layout.leaf(size.leaf).tensor(), size.axis);
      if (mark && mark->dynamic)
        fail("compile", condition.loc.file ? condition.loc : call.loc, layout.size_name(word),
             " is marked as dynamic, and the function makes the number ",
             static_cast<std::int64_t>(call.scratch.words.data()[word]), " of it");
    }
  }
}

bool symbolize(Type& type, const CallLayout& layout, std::size_t leaf, std::span<const Guards::Symbol> symbols,
               const std::function<Dim(std::size_t)>& size) {
  bool any = false;
  for (const CallLayout::Size& each : layout.sizes_of(leaf))
    for (std::size_t number = 0; number < symbols.size(); ++number)
      if (std::ranges::find(symbols[number].positions, each.word) != symbols[number].positions.end()) {
        type.shape[each.axis] = size(number);
        any = true;
      }
  return any;
}

std::string new_symbols_text(const CallContext& call, std::span<const Guards::Symbol> symbols) {
  const auto was_symbolic = [&](std::size_t word) {
    const Snapshot* const snapshot = call.function.current.load();
    return snapshot && std::ranges::any_of(snapshot->list, [&](const auto& each) {
             return is_comparable(each->guards.words, call) && !each->guards.mask.empty() &&
                    each->guards.mask[word] == 0;
           });
  };
  std::vector<std::string> sizes;
  for (const Guards::Symbol& symbol : symbols)
    for (const std::size_t word : symbol.positions)
      if (!was_symbolic(word)) sizes.push_back(call.layout().size_name(word));
  if (sizes.empty()) return "";
  return "; " + few_of(sizes) + (sizes.size() == 1 ? " is" : " are") + " symbolic from here on";
}

}  // namespace detail
}  // namespace weft
