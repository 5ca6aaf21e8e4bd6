#include "trace/key.hpp"

#include <algorithm>
#include <cstring>

#include "base/fail.hpp"
#include "record/random.hpp"
#include "trace/names.hpp"
#include "trace/registry.hpp"

namespace weft::detail {
namespace {

// dtype 0-7 | rank 8-11 | weak 12 | defined 13 | frozen 14 | device type 16-23 | device index 24-31
std::uint64_t frozen_bit(bool frozen) { return static_cast<std::uint64_t>(frozen) << 14; }
std::uint64_t meta_word(const Type& type, bool frozen) {
  return static_cast<std::uint64_t>(type.dtype) | static_cast<std::uint64_t>(type.shape.rank()) << 8 |
         static_cast<std::uint64_t>(type.weak) << 12 | 1ull << 13 | frozen_bit(frozen) |
         static_cast<std::uint64_t>(type.device.type) << 16 | static_cast<std::uint64_t>(type.device.index) << 24;
}
bool is_defined(std::uint64_t meta) { return meta >> 13 & 1; }
DType dtype_in(std::uint64_t meta) { return static_cast<DType>(meta & 0xff); }
std::string device_text(std::uint64_t meta) {
  auto device = static_cast<Device::Type>(meta >> 16 & 0xff);
  return device == Device::Type::cpu ? "cpu" : "cuda:" + std::to_string(meta >> 24 & 0xff);
}

// How many words a leaf takes, by its own first words.
std::size_t word_count(const Leaf& leaf, const std::uint64_t* words) {
  if (holds_tensor(leaf.kind)) return 1 + static_cast<std::size_t>(rank_of(words[0]));
  if (leaf.kind == LeafKind::bytes || leaf.kind == LeafKind::text) return 1 + packed_words(words[0]);
  return 1;
}

[[noreturn]] void refuse_traced(const CallSignature& signature, const LeafList& arguments, const Leaf& leaf, Loc loc) {
  const Tensor& value = leaf.tensor();
  fail("compile", loc, argument_names(signature, arguments)[static_cast<std::size_t>(&leaf - arguments.leaves.begin())],
       " is a tensor of a finished trace (", made_at(*value.node()),
       "): it has no value outside it; return it from the compiled function instead");
}

[[noreturn]] void refuse_default_generator(const CallSignature& signature, const LeafList& arguments, const Leaf& leaf,
                                           Loc loc) {
  fail("compile", loc, argument_names(signature, arguments)[static_cast<std::size_t>(&leaf - arguments.leaves.begin())],
       " belongs to the default generator, which all threads share: draw from it without passing it, or pass a "
       "Generator of your own");
}

Difference tensor_difference(const std::string& name, std::uint64_t was, std::uint64_t is,
                             const std::uint64_t* old_sizes, const std::uint64_t* sizes) {
  const auto differ = [&](const auto&... words) { return Difference{concat_text(name, ": ", words...)}; };
  auto state = [](std::uint64_t meta) { return is_defined(meta) ? "defined" : "undefined"; };
  if (is_defined(was) != is_defined(is)) return differ("was ", state(was), ", is ", state(is));
  if (dtype_in(was) != dtype_in(is))
    return differ("dtype was ", info(dtype_in(was)).name, ", is ", info(dtype_in(is)).name);
  if (rank_of(was) != rank_of(is)) return differ("number of dimensions was ", rank_of(was), ", is ", rank_of(is));
  if (device_text(was) != device_text(is)) return differ("device was ", device_text(was), ", is ", device_text(is));
  if ((was ^ is) >> 14 & 1) return differ(is >> 14 & 1 ? "was not frozen, is frozen" : "was frozen, is not frozen");
  if (was != is) return differ(is >> 12 & 1 ? "was a tensor, is a number (weak)" : "was a number (weak), is a tensor");
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

void encode(const CallSignature& signature, const LeafList& arguments, Words& words, Loc loc) {
  words.size = 0;
  *words.room(1) = reinterpret_cast<std::uint64_t>(&signature) | current_passes.load(std::memory_order_acquire)
                                                                     << address_bits;
  words.size = 1;
  const Tensor* shared = default_generator_state();
  for (const Leaf& leaf : arguments.leaves) {
    switch (leaf.kind) {
      case LeafKind::number: {
        std::uint64_t bits = 0;
        std::memcpy(&bits, leaf.address, leaf.size);
        *words.room(1) = bits;
        ++words.size;
        break;
      }
      case LeafKind::length:
      case LeafKind::presence:
      case LeafKind::alternative:
      case LeafKind::dynamic_type:
        *words.room(1) = leaf.size;
        ++words.size;
        break;
      case LeafKind::bytes:
      case LeafKind::text: {
        std::size_t packed = packed_words(leaf.size);
        std::uint64_t* to = words.room(1 + packed);
        to[packed] = 0;
        to[0] = leaf.size;
        if (leaf.size) std::memcpy(to + 1, leaf.address, leaf.size);
        words.size += 1 + packed;
        break;
      }
      default: {
        std::uint64_t* to = words.room(1 + max_rank);
        const Tensor& value = leaf.tensor();
        if (&value == shared) [[unlikely]]
          refuse_default_generator(signature, arguments, leaf, loc);
        if (!value.defined()) {
          to[0] = frozen_bit(leaf.flag);
          ++words.size;
          break;
        }
        if (value.node()->trace != 0) [[unlikely]]
          refuse_traced(signature, arguments, leaf, loc);
        const Type& type = type_of(value);
        to[0] = meta_word(type, leaf.flag);
        int rank = type.shape.rank();
        for (int axis = 0; axis < rank; ++axis) to[1 + axis] = type.shape[axis].word();
        words.size += 1 + static_cast<std::size_t>(rank);
      }
    }
  }
}

std::vector<std::size_t> word_positions(const LeafList& arguments) {
  std::vector<std::size_t> positions;
  std::size_t at = 1;
  for (const Leaf& leaf : arguments.leaves) {
    positions.push_back(at);
    at += 1;
    if (holds_tensor(leaf.kind))
      at += leaf.tensor().defined() ? static_cast<std::size_t>(type_of(leaf.tensor()).shape.rank()) : 0;
    else if (leaf.kind == LeafKind::bytes || leaf.kind == LeafKind::text)
      at += packed_words(leaf.size);
  }
  return positions;
}

Difference difference(const CallSignature& signature, const LeafList& arguments,
                      const std::vector<std::uint64_t>& earlier, const std::vector<std::uint64_t>& mask,
                      const Words& words) {
  if (earlier[0] >> address_bits != pass_set_of(words)) return {"the set of registered passes changed"};
  if (earlier[0] != words.data()[0]) return {"the types of the arguments changed"};
  std::vector<std::string> names = argument_names(signature, arguments);
  // Words that may vary are taken to be as they were.
  std::vector<std::uint64_t> before = earlier;
  if (!mask.empty())
    for (std::size_t i = 0; i < std::min(before.size(), words.size); ++i)
      before[i] ^= (before[i] ^ words.data()[i]) & ~mask[i];
  std::size_t at = 1;
  for (std::size_t i = 0; i < arguments.leaves.size() && at < before.size(); ++i) {
    const Leaf& leaf = arguments.leaves[i];
    const std::uint64_t* was = before.data() + at;
    const std::uint64_t* is = words.data() + at;
    std::size_t count = word_count(leaf, is);
    bool same = count == word_count(leaf, was) && at + count <= before.size() && std::memcmp(was, is, count * 8) == 0;
    at += count;
    if (same) continue;
    if (holds_tensor(leaf.kind)) return tensor_difference(names[i], was[0], is[0], was + 1, is + 1);
    if (is_count(leaf.kind))
      return {names[i] + ": was " + count_text(leaf.kind, was[0]) + ", is " + count_text(leaf.kind, is[0])};
    if (leaf.kind == LeafKind::text) return {names[i] + ": was " + text_of(was) + ", is " + text_of(is)};
    if (leaf.kind == LeafKind::bytes) return {names[i] + ": its numbers changed"};
    std::string text = names[i] + ": was " + value_text(leaf.number, was[0], leaf.size) + ", is " +
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

std::string size_name(const CallSignature& signature, const LeafList& arguments, std::size_t word) {
  std::vector<std::size_t> positions = word_positions(arguments);
  std::size_t leaf = 0;
  while (leaf + 1 < positions.size() && positions[leaf + 1] <= word) ++leaf;
  return concat_text(argument_names(signature, arguments)[leaf], ": size of dimension ", word - positions[leaf] - 1);
}

std::string meta_text(std::uint64_t meta) {
  if (!is_defined(meta)) return meta >> 14 & 1 ? "undefined frozen" : "undefined";
  std::string text = info(dtype_in(meta)).name;
  if (meta >> 12 & 1) text += " number";
  if (meta >> 14 & 1) text += " frozen";
  if (std::string device = device_text(meta); device != "cpu") text += " on " + device;
  return text;
}

}  // namespace weft::detail
