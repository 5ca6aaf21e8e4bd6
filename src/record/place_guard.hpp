// Where what is recorded belongs: the user's line, the composite, the use of a region, and the types of autocast. Code
// that records for a node (its derivative, its batch, the node once more) sets these for a block.
#pragma once
#include "ir/offload_mark.hpp"
#include "record/record.hpp"

namespace weft {

// At the end of the block the recorder has the place that it has now.
class PlaceGuard {
 public:
  PlaceGuard() : PlaceGuard(recorder()) {}
  ~PlaceGuard() {
    Recorder& r = recorder();
    r.loc = loc_;
    r.scope = scope_;
    r.region = region_;
    r.autocast = autocast_;
  }
  PlaceGuard(const PlaceGuard&) = delete;

  // Until then what is recorded is of the node's composite and region, and inside of offload() as it is here. It is at
  // the node's line, or at this one where it has none.
  void enter(const Node& node) const {
    Recorder& r = recorder();
    if (node.loc.file) r.loc = node.loc;
    r.scope = node.scope;
    r.region = node.region | (region_ & offload_mark);
  }

 private:
  explicit PlaceGuard(const Recorder& r) : loc_(r.loc), scope_(r.scope), region_(r.region), autocast_(r.autocast) {}

  const Loc loc_;
  const std::uint32_t scope_, region_;
  const DType autocast_;
};

}  // namespace weft
