// The key of a call: what guards compare, as 64-bit words. In: the leaves. Out: a word for the types of the call, then
// a leaf after the other: a tensor's meta word and sizes, a number's bits, text and its length, a container's length.
// Invariant: whatever tracing can see of an argument besides the tensors' elements is in the key. What is not, and why:
// strides and offsets (a kernel gets contiguous memory), alignment (kernels load unaligned), threads (results do not
// depend on their number).
#pragma once
#include <span>

#include "base/cache_lines.hpp"
#include "ir/node.hpp"
#include "weft/compile.hpp"

namespace weft::detail {

// A list of words that keeps its memory. Grown by the caller before a leaf is written.
struct Words {
  LineVector<std::uint64_t> storage;
  std::size_t size = 0;
  std::uint64_t* room(std::size_t count) {
    if (size + count > storage.size()) storage.resize((size + count) * 2);
    return storage.data() + size;
  }
  const std::uint64_t* data() const { return storage.data(); }
  operator std::span<const std::uint64_t>() const { return {storage.data(), size}; }
};

// The first word: the signature's address 0-47 | the number of the set of registered passes 48-61 | autocast 62-63
constexpr int address_bits = 48, autocast_place = 62;
inline std::uint64_t pass_set_of(std::uint64_t first) {
  return first << (64 - autocast_place) >> (64 - autocast_place + address_bits);
}
inline std::uint64_t pass_set_of(const Words& words) { return pass_set_of(words.data()[0]); }
// "off", "bf16" or "f16".
const char* autocast_text(std::uint64_t first);

// Throws where a tensor belongs to a trace.
void encode(const CallSignature& signature, const LeafList& arguments, Words& words, Loc loc);

// Marks the tensors that depend on a variable of the levels around the call, which began at `level`. Whether there are
// any.
bool mark_differentiated(const LeafList& arguments, Words& words, std::uint64_t level);

// A tensor's first word: dtype 0-7 | rank 8-11 | weak 12 | defined 13 | frozen 14 | differentiated 15 | device type
// 16-23 | device index 24-31 | Param::shard, Buffer::shard 32-63
inline int rank_of(std::uint64_t meta) { return static_cast<int>(meta >> 8 & 0xf); }
inline bool is_weak(std::uint64_t meta) { return meta >> 12 & 1; }
inline bool is_defined(std::uint64_t meta) { return meta >> 13 & 1; }
inline bool is_frozen(std::uint64_t meta) { return meta >> 14 & 1; }
constexpr std::uint64_t frozen_bit(bool frozen) { return static_cast<std::uint64_t>(frozen) << 14; }
std::uint64_t meta_word(const Type& type, bool frozen);  // of one that is defined
constexpr std::uint64_t differentiated_bit = 1U << 15;
inline bool is_differentiated(std::uint64_t meta) { return meta & differentiated_bit; }
constexpr int shard_place = 32;
inline std::uint32_t shard_in(std::uint64_t meta) { return static_cast<std::uint32_t>(meta >> shard_place); }
inline DType dtype_in(std::uint64_t meta) { return static_cast<DType>(meta & 0xff); }
std::string device_text(std::uint64_t meta);
// dtype and what else it says, besides the rank.
std::string meta_text(std::uint64_t meta);

// How many words a leaf takes, by its first.
std::size_t word_count(LeafKind kind, std::uint64_t first);
inline std::size_t packed_words(std::uint64_t bytes) { return (bytes + 7) / 8; }

}  // namespace weft::detail
