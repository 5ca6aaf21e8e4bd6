// Groups that do the same to other memory are lowered once. In: groups to lower. Out: their kernels, as lower() gives
// them, with names and comments. Two groups are alike where a walk from their stores meets the same operations,
// attributes, types, layouts and lines in the same order and reads its memory in the same pattern: the repeated blocks
// of a model, forward and backward. Of a group like an earlier one the kernels are the earlier ones' over its buffers.
#pragma once
#include <unordered_map>

#include "base/word_hash.hpp"
#include "schedule/lower.hpp"

namespace weft {

class LoweredGroups {
 public:
  explicit LoweredGroups(const LoweringContext& context, bool once) : context_(context), once_(once) {}

  // `name` and `comments` are those of the kernels of such a group.
  struct Words {
    std::string name;
    std::vector<std::string> comments;
  };
  // As lower() does; each kernel has its name, its comments and its shared text.
  loop::Stages operator()(const Group& group, int id, std::span<const StorePoint> stores,
                          const std::function<Words()>& words);

 private:
  using Signature = std::vector<std::uint64_t>;
  struct KnownStages {
    loop::Stages stages;
    std::vector<int> buffers;  // in the order of the walk
  };
  class Walk;

  loop::Stages make(const Group& group, int id, std::span<const StorePoint> stores,
                    const std::function<Words()>& words) const;

  const LoweringContext context_;
  const bool once_;
  std::unordered_map<Signature, KnownStages, WordsHash> known_;
};

}  // namespace weft
