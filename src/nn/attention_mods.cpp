// ScoreMod and MaskMod: functions that are used by others, and those that have names.
#include "weft/nn/attention_mods.hpp"

#include "base/fail.hpp"
#include "record/record.hpp"

namespace weft::nn {

Tensor ScoreMod::operator()(const Tensor& score, const Tensor& b, const Tensor& h, const Tensor& q,
                            const Tensor& k) const {
  const Tensor operands[] = {score, b, h, q, k};
  return function_(operands);
}
Tensor MaskMod::operator()(const Tensor& b, const Tensor& h, const Tensor& q, const Tensor& k) const {
  const Tensor operands[] = {b, h, q, k};
  return function_(operands);
}

MaskMod MaskMod::both(const MaskMod& a, const MaskMod& b) {
  return [a, b](const auto&... at) { return a(at...) & b(at...); };
}
MaskMod MaskMod::either(const MaskMod& a, const MaskMod& b) {
  return [a, b](const auto&... at) { return a(at...) | b(at...); };
}
MaskMod MaskMod::opposite(const MaskMod& a) {
  return [a](const auto&... at) { return ~a(at...); };
}

MaskMod causal() {
  return [](auto, auto, auto q, auto k) { return k <= q; };
}
MaskMod sliding_window(std::int64_t size, Loc loc) {
  const Operation call("sliding_window", loc);
  if (size < 1) fail("sliding_window", call.loc(), "the size must be positive, it is ", size);
  return [size](auto, auto, auto q, auto k) { return abs(q - k) < size; };
}
MaskMod document_mask(At given) {
  const Operation call("document_mask", given.loc);
  const Tensor ids = given.tensor ? *given.tensor : Tensor();
  const int rank = ids.defined() ? type_of(ids).shape.rank() : 0;
  if (rank < 1 || rank > 2 || !is_integer(type_of(ids).dtype))
    fail("document_mask", call.loc(), "takes the documents' numbers, integers [L] or [B, L]",
         ids.defined() ? ": " + to_string(type_of(ids)) : "");
  return [ids, rank](auto b, auto, auto q, auto k) {
    const Tensor own = rank == 2 ? ids[b] : ids;
    return own[q] == own[k];
  };
}

ScoreMod soft_cap(double cap, Loc loc) {
  const Operation call("soft_cap", loc);
  if (!(cap > 0)) fail("soft_cap", call.loc(), "the cap must be positive, it is ", cap);
  return [cap](auto score, auto, auto, auto, auto) { return cap * tanh(score / cap); };
}
ScoreMod alibi(At given) {
  const Operation call("alibi", given.loc);
  const Tensor slopes = given.tensor ? *given.tensor : Tensor();
  if (!slopes.defined() || type_of(slopes).shape.rank() != 1 || !is_floating(type_of(slopes).dtype))
    fail("alibi", call.loc(), "takes a slope for each head, floating [H]",
         slopes.defined() ? ": " + to_string(type_of(slopes)) : "");
  return [slopes](auto score, auto, auto h, auto q, auto k) { return score - slopes[h] * abs(q - k); };
}

}  // namespace weft::nn
