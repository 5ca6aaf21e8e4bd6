#include "trace/call_layout.hpp"

#include <algorithm>
#include <cstring>

#include "base/fail.hpp"
#include "trace/names.hpp"

namespace weft::detail {

CallLayout::CallLayout(const CallSignature& signature, const LeafList& arguments, const Words& words)
    : signature_(signature), arguments_(arguments) {
  std::size_t at = 1;
  begins_.push_back(at);
  for (std::size_t i = 0; i < arguments.leaves.size(); ++i) {
    const LeafKind kind = arguments.leaves[i].kind;
    const std::size_t count = detail::word_count(kind, words.data()[at]);
    if (holds_tensor(kind))
      for (std::size_t axis = 0; axis + 1 < count; ++axis) sizes_.push_back({i, at + 1 + axis, static_cast<int>(axis)});
    begins_.push_back(at += count);
  }
  WEFT_CHECK(at == words.size, "the words of a call");
}

std::span<const CallLayout::Size> CallLayout::sizes_of(std::size_t leaf) const {
  const auto [first, last] = std::ranges::equal_range(sizes_, leaf, {}, &Size::leaf);
  return {first, last};
}
const CallLayout::Size* CallLayout::size_at(std::size_t word) const {
  const auto found = std::ranges::lower_bound(sizes_, word, {}, &Size::word);
  return found != sizes_.end() && found->word == word ? &*found : nullptr;
}

const std::string& CallLayout::name(std::size_t leaf) const {
  if (names_.empty()) names_ = argument_names(signature_, arguments_);
  return names_[leaf];
}
std::string CallLayout::size_name(std::size_t word) const {
  const Size* const size = size_at(word);
  WEFT_CHECK(size, "a word that is no size");
  return concat_text(name(size->leaf), ": size of dimension ", size->axis);
}

namespace {

Difference tensor_difference(const std::string& name, std::uint64_t was, std::uint64_t is,
                             const std::uint64_t* old_sizes, const std::uint64_t* sizes) {
  const auto differ = [&](const auto&... words) { return Difference{concat_text(name, ": ", words...)}; };
  auto state = [](std::uint64_t meta) { return is_defined(meta) ? "defined" : "undefined"; };
  if (is_defined(was) != is_defined(is)) return differ("was ", state(was), ", is ", state(is));
  if (dtype_in(was) != dtype_in(is))
    return differ("dtype was ", info(dtype_in(was)).name, ", is ", info(dtype_in(is)).name);
  if (rank_of(was) != rank_of(is)) return differ("number of dimensions was ", rank_of(was), ", is ", rank_of(is));
  if (device_text(was) != device_text(is)) return differ("device was ", device_text(was), ", is ", device_text(is));
  if (is_frozen(was ^ is)) return differ(is_frozen(is) ? "was not frozen, is frozen" : "was frozen, is not frozen");
  if (is_differentiated(was ^ is))
    return differ(is_differentiated(is) ? "was not differentiated by a level around the call, is"
                                        : "was differentiated by a level around the call, is not");
  if (was != is) return differ(is_weak(is) ? "was a tensor, is a number (weak)" : "was a number (weak), is a tensor");
  for (int axis = 0; axis < rank_of(is); ++axis)
    if (old_sizes[axis] != sizes[axis])
      return {concat_text(name, ": size of dimension ", axis, " was ", static_cast<std::int64_t>(old_sizes[axis]),
                          ", is ", static_cast<std::int64_t>(sizes[axis])),
              true, old_sizes[axis] < 2 || sizes[axis] < 2};
  return {};
}

std::string text_of(const std::uint64_t* words) {
  return "\"" + std::string(reinterpret_cast<const char*>(words + 1), static_cast<std::size_t>(words[0])) + "\"";
}

}  // namespace

Difference difference(const CallLayout& layout, const std::vector<std::uint64_t>& earlier,
                      const std::vector<std::uint64_t>& mask, const Words& words) {
  const std::uint64_t first = words.data()[0];
  if (earlier[0] >> autocast_place != first >> autocast_place)
    return {concat_text("autocast was ", autocast_text(earlier[0]), ", is ", autocast_text(first))};
  if (pass_set_of(earlier[0]) != pass_set_of(first)) return {"the set of registered passes changed"};
  if (earlier[0] != first) return {"the types of the arguments changed"};
  // Words that may vary are taken to be as they were.
  std::vector<std::uint64_t> before = earlier;
  if (!mask.empty())
    for (std::size_t i = 0; i < std::min(before.size(), words.size); ++i)
      before[i] ^= (before[i] ^ words.data()[i]) & ~mask[i];
  // Leaf by leaf: up to the first that differs, both calls' words are in the same places.
  for (std::size_t i = 0; i < layout.leaf_count() && layout.word(i) < before.size(); ++i) {
    const Leaf& leaf = layout.leaf(i);
    const std::size_t at = layout.word(i), count = layout.word_count(i);
    const std::uint64_t* was = before.data() + at;
    const std::uint64_t* is = words.data() + at;
    if (count == word_count(leaf.kind, was[0]) && at + count <= before.size() && std::memcmp(was, is, count * 8) == 0)
      continue;
    const std::string& name = layout.name(i);
    if (holds_tensor(leaf.kind)) return tensor_difference(name, was[0], is[0], was + 1, is + 1);
    if (is_count(leaf.kind))
      return {name + ": was " + count_text(leaf, was[0]) + ", is " + count_text(leaf, is[0])};
    if (leaf.kind == LeafKind::text) return {name + ": was " + text_of(was) + ", is " + text_of(is)};
    if (leaf.kind == LeafKind::bytes) return {name + ": its numbers changed"};
    std::string text = name + ": was " + value_text(leaf.number, was[0], leaf.size) + ", is " +
                       value_text(leaf.number, is[0], leaf.size);
    if (leaf.number == NumberKind::floating || leaf.number == NumberKind::float16 ||
        leaf.number == NumberKind::bfloat16)
      text += " (pass it as a weft::Scalar, which may vary without a recompilation)";
    if (leaf.number == NumberKind::signed_integer || leaf.number == NumberKind::unsigned_integer)
      text +=
          " (an operand of arithmetic may vary as a weft::Index; a loop count, a stride or a size shapes the graph and "
          "is compiled for each value: raise recompile_limit, or take a size from a tensor, whose size may vary)";
    return {text};
  }
  return {};
}

}  // namespace weft::detail
