// The builder: how nodes are made. In: a primitive, operands, attributes. Out: a node whose type is inferred, with the
// builder's location, scope, trace, recomputation and region. Passes and decompositions build for the node that theirs
// replace; recording (record/record.hpp) adds to it what belongs to a trace, and derivative rules build through that.
#pragma once
#include <initializer_list>

#include "ir/graph.hpp"

namespace weft {

class Builder {
 public:
  explicit Builder(const Node& origin)
      : Builder(origin.loc, origin.scope, origin.trace, origin.recomputation, origin.region) {}
  constexpr Builder(Loc loc, std::uint32_t scope, std::uint32_t trace, std::uint32_t recomputation = 0,
                    std::uint32_t region = 0)
      : loc_(loc), scope_(scope), trace_(trace), recomputation_(recomputation), region_(region) {}

  // `wanted` carries what operands do not determine (ir/infer.hpp). Throws the user's error where they do not fit.
  virtual Tensor make(Op op, std::span<const Tensor> operands, const Attributes& attributes, const Type& wanted) const;
  Tensor make(Op op, std::initializer_list<Tensor> operands, const Attributes& attributes = {},
              const Type& wanted = {}) const {
    return make(op, std::span<const Tensor>(operands.begin(), operands.size()), attributes, wanted);
  }
  Tensor input(std::size_t slot, const Type& type) const;
  // The same node over other operands: bodies, further results and the node's own location too.
  static Tensor copy(const Node& node, std::span<const Tensor> operands);

  // The value itself where nothing would change.
  Tensor cast(const Tensor& value, DType dtype) const;
  Tensor reshape(const Tensor& value, const Shape& shape) const;
  Tensor expand(const Tensor& value, const Shape& shape) const;
  Tensor permute(const Tensor& value, const AxisList& axes) const;
  // `count` elements from `start` in steps of `step`.
  Tensor slice(const Tensor& value, const Slice& which, Dim count) const;
  Tensor sum(const Tensor& value, AxisSet axes) const;  // keeps the axes, as size 1
  Tensor add(const Tensor& a, const Tensor& b) const { return make(Op::add, {a, b}); }
  Tensor mul(const Tensor& a, const Tensor& b) const { return make(Op::mul, {a, b}); }
  Tensor constant(const Constant& number, const Type& type) const { return make(Op::constant, {}, number, type); }

 private:
  Loc loc_;
  std::uint32_t scope_, trace_, recomputation_, region_;
};

// Further results of a node, after the first.
void set_more_results(Node& node, std::span<const Type> types);

}  // namespace weft
