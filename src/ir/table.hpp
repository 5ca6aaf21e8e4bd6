// The table of weft/ops.def as data: what passes, inference, executors and generators ask about a primitive.
#pragma once
#include <string_view>

#include "ir/node.hpp"

namespace weft {

enum class OpKind : std::uint8_t {
  pointwise,
  leaf,
  view,
  assemble,
  cast,
  reduce,
  cumulative,
  contraction,
  convolution,
  index,
  order,
  factorization,
  random,
  identity,
  collective,
  effect,
  region
};
enum class DTypeClass : std::uint8_t {
  arithmetic,
  floating,
  comparison,
  bits,
  integers,
  predicate,
  select,
  structural
};

enum class Rounding : std::uint8_t { exact, once, several };

struct OpInfo {
  const char* name;
  int arity;  // -1: any
  OpKind kind;
  DTypeClass dtypes;
  Rounding rounding;  // of pointwise primitives on floats
  int cost;           // of an element of theirs, in additions
  const char* lanes;  // the C spelling over a, b, c; empty for structural primitives
  const AttributeType* attributes;
};

const OpInfo& info(Op op);
inline constexpr int op_count = 0
#define WEFT_POINTWISE(...) +1
#define WEFT_STRUCTURAL(...) +1
#include "weft/ops.def"
    ;
inline bool is_pointwise(Op op) { return info(op).kind == OpKind::pointwise || info(op).kind == OpKind::cast; }
inline bool is_view(Op op) { return info(op).kind == OpKind::view || info(op).kind == OpKind::identity; }
// Kept, in program order, whether or not its result is used.
inline bool is_effect(Op op) { return info(op).kind == OpKind::effect; }
inline bool is_loop(Op op) { return info(op).kind == OpKind::region && op != Op::call; }
inline bool is_reduce(Op op) { return info(op).kind == OpKind::reduce; }
inline bool is_cumulative(Op op) { return info(op).kind == OpKind::cumulative; }
// scatter_add, scatter_amax: rows that meet in a table.
inline bool is_scatter(Op op) { return op == Op::scatter_add || op == Op::scatter_amax; }

}  // namespace weft
