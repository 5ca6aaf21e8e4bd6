// Where the leaves of a call are in its key, and what they are called. In: a call's types, leaves and words. Out: by
// leaf its words and its name; by word the size that it holds. A call that traces or is asked about has one
// (CallContext::layout); a hit needs none.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "trace/key.hpp"

namespace weft::detail {

class CallLayout {
 public:
  CallLayout(const CallSignature& signature, const LeafList& arguments, const Words& words);

  // A size of a tensor.
  struct Size {
    std::size_t leaf, word;
    int axis;
  };
  const LeafList& arguments() const { return arguments_; }
  const Leaf& leaf(std::size_t i) const { return arguments_.leaves[i]; }
  std::size_t leaf_count() const { return begins_.size() - 1; }
  // A leaf's words, from the first one on; a tensor's sizes follow its first.
  std::size_t word(std::size_t leaf) const { return begins_[leaf]; }
  std::size_t word_count(std::size_t leaf) const { return begins_[leaf + 1] - begins_[leaf]; }
  // All sizes, in the order of their words.
  std::span<const Size> sizes() const { return sizes_; }
  // Those of a leaf; none where it is no tensor, or is undefined.
  std::span<const Size> sizes_of(std::size_t leaf) const;
  // The size that a word holds; null where it holds none.
  const Size* size_at(std::size_t word) const;

  // `argument 0 (x)`
  const std::string& name(std::size_t leaf) const;
  // The size that a word holds: `argument 0 (x): size of dimension 0`.
  std::string size_name(std::size_t word) const;

 private:
  const CallSignature& signature_;
  const LeafList& arguments_;
  std::vector<std::size_t> begins_;  // by leaf, and the end
  std::vector<Size> sizes_;
  mutable std::vector<std::string> names_;  // made when the first one is asked for
};

// Why a call's words do not fit: `argument 0 (x): size of dimension 0 was 64, is 32`. Empty where they do.
struct Difference {
  std::string text;
  bool of_size = false;  // of a tensor, which was compiled as a number
  bool of_one = false;   // a size is 0 or 1 in one of the calls and not in the other
};
// What differs between an earlier call's words and these, where the mask (none: everywhere) has bits.
Difference difference(const CallLayout& layout, const std::vector<std::uint64_t>& earlier,
                      const std::vector<std::uint64_t>& mask, const Words& words);

}  // namespace weft::detail
