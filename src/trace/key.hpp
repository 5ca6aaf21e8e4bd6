// The key of a call: what guards compare, as 64-bit words. In: the leaves. Out: a word for the types of the call, then
// a leaf after the other: a tensor's meta word and sizes, a number's bits, text and its length, a container's length.
// Invariant: whatever tracing can see of an argument besides the tensors' elements is in the key. What is not, and why:
// strides and offsets (a kernel gets contiguous memory), alignment (kernels load unaligned), threads (results do not
// depend on their number).
#pragma once
#include <vector>

#include "ir/node.hpp"
#include "weft/compile.hpp"

namespace weft::detail {

// A list of words that keeps its memory. Grown by the caller before a leaf is written.
struct Words {
  std::vector<std::uint64_t> storage;
  std::size_t size = 0;
  std::uint64_t* room(std::size_t count) {
    if (size + count > storage.size()) storage.resize((size + count) * 2);
    return storage.data() + size;
  }
  const std::uint64_t* data() const { return storage.data(); }
};

// The first word: the signature's address, and above it the number of the set of registered passes.
constexpr int address_bits = 48;
inline std::uint64_t pass_set_of(const Words& words) { return words.data()[0] >> address_bits; }

// Throws where a tensor belongs to a trace.
void encode(const CallSignature& signature, const LeafList& arguments, Words& words, Loc loc);

// Where each leaf's words begin.
std::vector<std::size_t> word_positions(const LeafList& arguments);

// Why words do not fit: `argument 0 (x): size of dimension 0 was 64, is 32`. Empty where they do.
struct Difference {
  std::string text;
  bool of_size = false;  // of a tensor, which was compiled as a number
  bool of_one = false;   // a size is 0 or 1 in one of the calls and not in the other
};
// What differs between an earlier call's words and these, where the mask (none: everywhere) has bits.
Difference difference(const CallSignature& signature, const LeafList& arguments,
                      const std::vector<std::uint64_t>& earlier, const std::vector<std::uint64_t>& mask,
                      const Words& words);
// The size that a word holds: `argument 0 (x): size of dimension 0`.
std::string size_name(const CallSignature& signature, const LeafList& arguments, std::size_t word);

// dtype and what else a tensor's first word says, besides its rank.
std::string meta_text(std::uint64_t meta);

inline std::size_t packed_words(std::uint64_t bytes) { return (bytes + 7) / 8; }
inline int rank_of(std::uint64_t meta) { return static_cast<int>(meta >> 8 & 0xf); }

}  // namespace weft::detail
