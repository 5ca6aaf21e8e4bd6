// What people read of a package: what it holds, and in what a call differs from that.
#include <algorithm>
#include <set>

#include "base/dim_conditions.hpp"
#include "base/fail.hpp"
#include "runtime/package_file.hpp"

namespace weft::runtime {

namespace {

std::string text_of(Device device) {
  return device.type == Device::Type::cpu ? "cpu" : concat_text("cuda:", static_cast<int>(device.index));
}
std::string leaf_text(const PackageLeaf& leaf) {
  if (leaf.kind != PackageLeaf::Kind::tensor) return leaf.text;
  if (!leaf.defined) return "undefined";
  std::string text = tensor_text(leaf.dtype, leaf.sizes);
  if (leaf.weak) text += " number";
  if (leaf.frozen) text += " frozen";
  if (leaf.device.type != Device::Type::cpu) text += " on " + text_of(leaf.device);
  return text;
}
std::string size_name(const PackageLeaf& leaf, std::size_t axis) {
  return concat_text(leaf.name, ": size of dimension ", axis);
}

// What of a tensor differs besides its sizes; empty where nothing does.
std::string tensor_mismatch(const PackageLeaf& held, const PackageLeaf& given) {
  const auto differ = [&](const char* what, const auto& is, const auto& was) {
    return concat_text(held.name, what, " is ", is, ", the package holds ", was);
  };
  const auto state = [](bool defined) { return defined ? "defined" : "undefined"; };
  const auto frozen = [](bool frozen) { return frozen ? "frozen" : "not frozen"; };
  const auto weak = [](bool weak) { return weak ? "a number (weak)" : "a tensor"; };
  if (held.defined != given.defined) return differ("", state(given.defined), state(held.defined));
  if (held.frozen != given.frozen) return differ("", frozen(given.frozen), frozen(held.frozen));
  if (!held.defined) return {};
  if (held.dtype != given.dtype) return differ(": dtype", info(given.dtype).name, info(held.dtype).name);
  if (held.sizes.size() != given.sizes.size())
    return differ(": number of dimensions", given.sizes.size(), held.sizes.size());
  if (held.device != given.device) return differ(": device", text_of(given.device), text_of(held.device));
  if (held.weak != given.weak) return differ("", weak(given.weak), weak(held.weak));
  return {};
}

}  // namespace

std::string tensor_text(DType dtype, const std::vector<Dim>& sizes) {
  std::string text = concat_text(info(dtype).name, "[");
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) text += (axis ? "," : "") + dims::to_string(sizes[axis]);
  return text + "]";
}

std::string mismatch(const PackageSpecialization& held, const std::vector<PackageLeaf>& given, std::size_t& leaf) {
  std::vector<std::int64_t> symbols(held.symbols.size(), -1);
  std::vector<std::string> names(held.symbols.size());
  for (leaf = 0; leaf < held.arguments.size() && leaf < given.size(); ++leaf) {
    const PackageLeaf& was = held.arguments[leaf];
    const PackageLeaf& is = given[leaf];
    const bool equal = was.kind == PackageLeaf::Kind::count ? was.count == is.count : was.bytes == is.bytes;
    if (was.kind != is.kind || (was.kind != PackageLeaf::Kind::tensor && !equal))
      return concat_text(was.name, " is ", is.text, ", the package holds ", was.text);
    if (was.kind != PackageLeaf::Kind::tensor) continue;
    if (std::string found = tensor_mismatch(was, is); !found.empty()) return found;
    for (std::size_t axis = 0; axis < was.sizes.size(); ++axis) {
      const std::int64_t size = is.sizes[axis].constant();
      if (was.sizes[axis].is_constant()) {
        if (size == was.sizes[axis].constant()) continue;
        return concat_text(size_name(was, axis), " is ", size, ", the package holds ", was.sizes[axis].constant());
      }
      const auto symbol = static_cast<std::size_t>(was.sizes[axis].node()->number);  // read_package has looked
      const auto [lower, upper] = held.symbols[symbol];
      if (size < lower || size > upper)
        return concat_text(size_name(was, axis), " is ", size, ", the package holds sizes of at ",
                           size < lower ? "least " : "most ", size < lower ? lower : upper);
      if (symbols[symbol] < 0) {
        symbols[symbol] = size;
        names[symbol] = size_name(was, axis);
      } else if (symbols[symbol] != size) {
        return concat_text(size_name(was, axis), " is ", size, ", the package holds ", symbols[symbol],
                           " there, as of ", names[symbol]);
      }
    }
  }
  if (held.arguments.size() != given.size()) return "the arguments have another number of parts than the package holds";
  for (const PackageCondition& condition : held.conditions) {
    if (is_satisfied(condition, symbols)) continue;
    std::string sizes;
    for (std::size_t symbol = 0; symbol < symbols.size(); ++symbol)
      if (names_symbol(condition, symbol))
        sizes += concat_text(sizes.empty() ? "" : ", ", "s", symbol, " = ", symbols[symbol], " (", names[symbol], ")");
    return concat_text("the package holds sizes with ", condition_text(condition),
                       condition.place.empty() ? "" : ", as decided ", condition.place, ", and the call has ", sizes);
  }
  return {};
}

namespace {

// The first axis of the arguments that a symbol is the size of.
const PackageLeaf* leaf_of(const PackageSpecialization& held, std::size_t symbol, std::size_t& axis) {
  for (const PackageLeaf& leaf : held.arguments)
    for (axis = 0; axis < leaf.sizes.size(); ++axis)
      if (!leaf.sizes[axis].is_constant() && static_cast<std::size_t>(leaf.sizes[axis].node()->number) == symbol)
        return &leaf;
  return nullptr;
}

// The first condition that names no other symbol and is broken where this one has the value `size`; null: none.
const PackageCondition* broken_at(const PackageSpecialization& held, std::size_t symbol, std::int64_t size) {
  for (const PackageCondition& condition : held.conditions) {
    bool names_others = false;
    for (std::size_t other = 0; other < held.symbols.size(); ++other)
      names_others |= other != symbol && names_symbol(condition, other);
    if (!names_others && names_symbol(condition, symbol) && !is_satisfied(condition, [&](std::size_t) { return size; }))
      return &condition;
  }
  return nullptr;
}

bool takes(const PackageSpecialization& held, std::string_view leaf, std::size_t axis, std::int64_t size) {
  const auto found = std::ranges::find(held.arguments, leaf, &PackageLeaf::name);
  if (found == held.arguments.end() || axis >= found->sizes.size()) return false;
  const Dim is = found->sizes[axis];
  if (is.is_constant()) return is.constant() == size;
  const auto symbol = static_cast<std::size_t>(is.node()->number);
  const auto [lower, upper] = held.symbols[symbol];
  return size >= lower && size <= upper && !broken_at(held, symbol, size);
}

}  // namespace

std::vector<std::string> sizes_left_out(const PackageEntry& entry) {
  constexpr std::int64_t first_sizes = 8;
  std::vector<std::string> all;
  for (const PackageSpecialization& each : entry.specializations)
    for (std::size_t symbol = 0; symbol < each.symbols.size(); ++symbol) {
      const auto [lower, upper] = each.symbols[symbol];
      std::size_t axis = 0;
      const PackageLeaf* const leaf = leaf_of(each, symbol, axis);
      for (std::int64_t size = lower; leaf && size <= std::min(upper, lower + first_sizes - 1); ++size) {
        const PackageCondition* const broken = broken_at(each, symbol, size);
        const auto is_taken = [&](const PackageSpecialization& other) { return takes(other, leaf->name, axis, size); };
        if (!broken || std::ranges::any_of(entry.specializations, is_taken)) continue;
        std::string text = concat_text(size_name(*leaf, axis), " is not ", size, ", since ", condition_text(*broken));
        if (!broken->place.empty()) text += concat_text(", as decided ", broken->place);
        if (std::ranges::find(all, text) == all.end()) all.push_back(std::move(text));
      }
    }
  return all;
}

void NearestMismatch::add(std::string why, std::size_t leaf) {
  if (count_++ == 0 || leaf > leaf_) why_ = std::move(why), leaf_ = leaf;
}
std::string NearestMismatch::text() const {
  if (count_ == 1) return why_;
  return concat_text("fits none of the ", count_, " kinds of arguments that the package holds; of the nearest, ", why_);
}

std::string guards_text(const PackageSpecialization& made) {
  FieldWriter to;
  to(made.arguments, made.symbols, made.conditions);
  return to.bytes();
}

std::string damaged_weight(const PackageFile& package) {
  for (const PackageWeight& weight : package.weights)
    if (digest(weight.bytes) != weight.digest) return weight.name;
  return {};
}

std::string to_text(const PackageFile& package) {
  std::string text;
  for (const PackageEntry& entry : package.entries) {
    std::set<std::string> told;
    for (const PackageSpecialization& each : entry.specializations) {
      if (!told.insert(guards_text(each)).second) continue;
      text += entry.name + "\n";
      for (const PackageLeaf& leaf : each.arguments) text += "  " + leaf.name + ": " + leaf_text(leaf) + "\n";
      for (const std::uint32_t input : each.inputs) {
        if (!PackageSpecialization::is_weight(input)) continue;
        const PackageWeight& weight = package.weights[PackageSpecialization::weight_index(input)];
        text += "  holds " + weight.name + ": ";
        text += tensor_text(weight.dtype, {weight.sizes.begin(), weight.sizes.end()}) + "\n";
      }
      for (std::size_t i = 0; i < each.symbols.size(); ++i) {
        const auto [lower, upper] = each.symbols[i];
        text += concat_text("  s", i, " >= ", lower);
        text += upper == INT64_MAX ? "\n" : concat_text(", <= ", upper, "\n");
      }
      for (const PackageCondition& condition : each.conditions) text += "  " + condition_text(condition) + "\n";
      std::size_t next = 0;
      for (const PackageLeaf& leaf : each.result) {
        text += "  " + leaf.name + ": ";
        if (leaf.kind != PackageLeaf::Kind::tensor) {
          text += leaf.text + "\n";
          continue;
        }
        const Source& source = each.results[next++];
        using Kind = Source::Kind;
        text += source.kind == Kind::undefined ? "undefined"
                : source.kind == Kind::computed
                    ? tensor_text(each.outputs[source.index].dtype, each.outputs[source.index].sizes)
                    : each.arguments[source.index].name;
        text += "\n";
      }
      for (const StateTensor& state : each.states) text += "  writes " + each.arguments[state.leaf].name + "\n";
      for (const StateNumbers& numbers : each.numbers) text += "  writes " + each.arguments[numbers.leaf].name + "\n";
    }
  }
  return text;
}

}  // namespace weft::runtime
