#include "trace/key.hpp"

#include <algorithm>
#include <cstring>

#include "autograd/backward.hpp"
#include "base/fail.hpp"
#include "record/random.hpp"
#include "record/record.hpp"
#include "record/shards.hpp"
#include "trace/names.hpp"
#include "trace/registry.hpp"

namespace weft::detail {
namespace {

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

constexpr DType autocasts[] = {DType::f32, DType::bf16, DType::f16};
std::uint64_t autocast_number() {
  const DType current = recorder().autocast;
  return static_cast<std::uint64_t>(std::ranges::find(autocasts, current) - autocasts);
}

}  // namespace

std::uint64_t meta_word(const Type& type, bool frozen) {
  return static_cast<std::uint64_t>(type.dtype) | static_cast<std::uint64_t>(type.shape.rank()) << 8 |
         static_cast<std::uint64_t>(type.weak) << 12 | 1ull << 13 | frozen_bit(frozen) |
         static_cast<std::uint64_t>(type.device.type) << 16 | static_cast<std::uint64_t>(type.device.index) << 24;
}

const char* autocast_text(std::uint64_t first) {
  const std::uint64_t number = first >> autocast_place;
  return number == 0 ? "off" : info(autocasts[number]).name;
}

void encode(const CallSignature& signature, const LeafList& arguments, Words& words, Loc loc) {
  words.size = 0;
  *words.room(1) = reinterpret_cast<std::uint64_t>(&signature) |
                   current_passes.load(std::memory_order_acquire) << address_bits | autocast_number() << autocast_place;
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
      case LeafKind::tensor:
      case LeafKind::param:
      case LeafKind::buffer:
      case LeafKind::scalar:
      case LeafKind::index: {
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
        to[0] = meta_word(type, leaf.flag) | static_cast<std::uint64_t>(leaf.shard()) << shard_place;
        int rank = type.shape.rank();
        for (int axis = 0; axis < rank; ++axis) to[1 + axis] = type.shape[axis].word();
        words.size += 1 + static_cast<std::size_t>(rank);
      }
    }
  }
}

bool mark_differentiated(const LeafList& arguments, Words& words, std::uint64_t level) {
  std::uint64_t* at = words.storage.data() + 1;
  bool any = false;
  for (const Leaf& leaf : arguments.leaves) {
    const std::size_t count = word_count(leaf.kind, *at);
    if (holds_tensor(leaf.kind) && leaf.tensor().defined() && depends_on_variable(leaf.tensor(), level)) {
      *at |= differentiated_bit;
      any = true;
    }
    at += count;
  }
  return any;
}

std::size_t word_count(LeafKind kind, std::uint64_t first) {
  if (holds_tensor(kind)) return 1 + static_cast<std::size_t>(rank_of(first));
  if (kind == LeafKind::bytes || kind == LeafKind::text) return 1 + packed_words(first);
  return 1;
}

std::string device_text(std::uint64_t meta) {
  auto device = static_cast<Device::Type>(meta >> 16 & 0xff);
  return device == Device::Type::cpu ? "cpu" : "cuda:" + std::to_string(meta >> 24 & 0xff);
}

std::string meta_text(std::uint64_t meta) {
  if (!is_defined(meta)) return is_frozen(meta) ? "undefined frozen" : "undefined";
  std::string text = info(dtype_in(meta)).name;
  if (is_weak(meta)) text += " number";
  if (is_frozen(meta)) text += " frozen";
  if (is_differentiated(meta)) text += " differentiated";
  if (const std::uint32_t shard = shard_in(meta)) text += ", " + to_string(interned_shard(shard));
  if (std::string device = device_text(meta); device != "cpu") text += " on " + device;
  return text;
}

}  // namespace weft::detail
