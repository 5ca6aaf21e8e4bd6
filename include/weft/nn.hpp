// Layers and losses. A module is a plain struct of parameters and other modules that can be called; nothing is
// registered. Also what is done to whole models: naming, freezing and initializing their parameters.
#pragma once
#include <vector>

#include "weft/detail/refuse.hpp"
#include "weft/flatten.hpp"
#include "weft/ops.hpp"
#include "weft/random.hpp"

namespace weft::nn {

// ---- initial values -------------------------------------------------------------------------------------------------
// Of weights [out, in, ...]: an output sees in * ... inputs (fan in), an input feeds out * ... outputs (fan out).

// Uniform or normal with the deviation gain / sqrt(fan in) (He and others 2015); the gain of relu is sqrt(2).
Tensor kaiming_uniform(Sizes sizes, Generator& generator = default_generator(), double gain = 1.4142135623730951,
                       Options options = {}, Loc loc = Loc::current());
Tensor kaiming_normal(Sizes sizes, Generator& generator = default_generator(), double gain = 1.4142135623730951,
                      Options options = {}, Loc loc = Loc::current());
// The same with the deviation gain * sqrt(2 / (fan in + fan out)) (Glorot and Bengio 2010).
Tensor xavier_uniform(Sizes sizes, Generator& generator = default_generator(), double gain = 1, Options options = {},
                      Loc loc = Loc::current());
Tensor xavier_normal(Sizes sizes, Generator& generator = default_generator(), double gain = 1, Options options = {},
                     Loc loc = Loc::current());

// ---- layers --------------------------------------------------------------------------------------------------------

// y = x W^T + b over the last axis: x [..., in] to y [..., out]. Both start uniform within 1 / sqrt(in), as in PyTorch.
struct Linear {
  Linear(std::int64_t in, std::int64_t out, bool with_bias = true, Options options = {}, Loc loc = Loc::current());
  Tensor operator()(At x) const;
  void initialize(Generator& generator);

  Param weight;  // [out, in]
  Param bias;    // [out]; undefined and frozen where there is none
  WEFT_MEMBERS(weight, bias)
};

// Over the last axis: (x - mean) / sqrt(variance + eps) * weight + bias, of the variance without a correction. x [...,
// n], weight and bias [n]. f16 and bf16 are computed in f32 and rounded once (Ba and others 2016).
Tensor layer_norm(At x, At weight, At bias, double eps = 1e-5);

// ---- losses: means over all elements, NaN of none -------------------------------------------------------------------

// -log softmax(logits)[label] over the last axis: logits [..., classes], labels integers [...]. A label outside
// [0, classes) is an error.
Tensor cross_entropy(At logits, At labels);
// Equal shapes.
Tensor mse_loss(At prediction, At target);

using weft::celu;
using weft::elu;
using weft::gelu;
using weft::hardshrink;
using weft::hardsigmoid;
using weft::hardswish;
using weft::hardtanh;
using weft::leaky_relu;
using weft::log_sigmoid;
using weft::mish;
using weft::prelu;
using weft::relu;
using weft::relu6;
using weft::selu;
using weft::silu;
using weft::softmax;
using weft::softplus;
using weft::softshrink;
using weft::softsign;
using weft::tanhshrink;
using weft::threshold;

// ---- whole models --------------------------------------------------------------------------------------------------

template <class P = Param>  // const Param of a const model
struct NamedParameter {
  const char* name;  // blocks.3.attn.weight; lives as long as the process
  P& value;          // the model's own
};

namespace detail {
using weft::detail::Leaf;
using weft::detail::LeafList;
using weft::detail::TypeKind;

// What holds anything that cannot be looked into is refused.
template <class M>
consteval bool check_model() {
  using Offending = typename weft::detail::FirstUnsupported<std::remove_const_t<M>>::type;
  (void)weft::detail::check_members<Offending>();
  static_assert(std::is_void_v<Offending> || weft::detail::flaw_of<Offending>() != weft::detail::Flaw::none,
                "weft: a model is or holds a type that has no meaning to Weft (a pointer, say, or a class that needs "
                "WEFT_MEMBERS)");
  return true;
}

// The way to a part of a model: text that grows and shrinks.
class Path {
 public:
  const char* text() const { return text_; }
  const char* interned() const;  // lives as long as the process
  // Puts ".name", or ".number" where there is no name, behind until the end of the block.
  class Segment {
   public:
    Segment(Path& path, std::size_t number, MemberName name = {});
    ~Segment();
    Segment(const Segment&) = delete;

   private:
    Path& path_;
    unsigned before_;
  };

 private:
  char text_[256] = "";
  unsigned size_ = 0;
};

// Calls visit(part, path) for `value` and the parts inside it; true: what is inside that part is left out.
template <class T, class Visit>
void walk(T& value, Visit& visit, Path& path) {
  using weft::detail::type_kind;
  if (visit(value, path)) return;
  constexpr TypeKind kind = type_kind<std::remove_const_t<T>>();
  auto step = [&](auto& part, std::size_t number, MemberName name = {}) {
    Path::Segment segment(path, number, name);
    walk(part, visit, path);
  };
  if constexpr (kind == TypeKind::list || kind == TypeKind::array) {
    std::size_t i = 0;
    for (auto& element : value) step(element, i++);
  } else if constexpr (kind == TypeKind::tuple) {
    [&]<int... index>(std::integer_sequence<int, index...>) { (step(get<index>(value), index), ...); }
    (std::make_integer_sequence<int, std::tuple_size<T>::value>());
  } else if constexpr (kind == TypeKind::optional) {
    if (value.has_value()) walk(*value, visit, path);
  } else if constexpr (kind == TypeKind::variant) {
    [&]<class... Alternative>(weft::detail::TypeList<Alternative...>) {
      (
          [&] {
            if (auto* held = get_if<Alternative>(&value)) walk(*held, visit, path);
          }(),
          ...);
    }(weft::detail::child_types<std::remove_const_t<T>>());
  } else if constexpr (kind == TypeKind::structure) {
    using Members = members<std::remove_const_t<T>>;
    std::size_t i = 0;
    Members::visit(value, [&](auto&... member) { ((step(member, i, Members::names[i]), ++i), ...); });
  }
}
}  // namespace detail

// The defined parameters in the order of their declaration, with their paths. They are the model's own, which must
// outlive the list: `p.value -= 0.1 * gradient` and `p.value.frozen = true` change it.
template <class M>
auto parameters(M& model) {
  (void)detail::check_model<M>();
  using P = std::conditional_t<std::is_const_v<M>, const Param, Param>;
  std::vector<NamedParameter<P>> list;
  detail::Path path;
  auto visit = [&list]<class T>(T& part, detail::Path& path) {
    if constexpr (std::is_same_v<T, P>)
      if (part.tensor().defined()) list.push_back({path.interned(), part});
    return false;
  };
  detail::walk(model, visit, path);
  return list;
}

// A frozen parameter is not differentiated and not updated.
template <class M>
void freeze(M& model, bool frozen = true) {
  (void)detail::check_model<M>();
  detail::Path path;
  auto visit = [frozen]<class T>(T& part, detail::Path&) {
    if constexpr (std::is_same_v<T, Param>) part.frozen = frozen || !part.tensor().defined();
    return false;
  };
  detail::walk(model, visit, path);
}

// Draws initial values anew: every part that has initialize(Generator&) gets a generator of its path, so a layer's
// values depend on the seed and its name, not on what else the model holds or in which order it was made.
template <class M>
void initialize(M& model, Generator& generator, Loc loc = Loc::current()) {
  (void)detail::check_model<M>();
  detail::Path path;
  Generator base = generator.fork(loc);
  auto visit = [&]<class T>(T& part, detail::Path& path) {
    if constexpr (requires(Generator & own) { part.initialize(own); }) {
      Generator own = base.named(path.text(), loc);
      part.initialize(own);
      return true;
    } else {
      return false;
    }
  };
  detail::walk(model, visit, path);
}

// Moves the tensors of a model (an optimizer's state, a batch) to a device. 0-d values, hyperparameters and counters,
// stay on the host, where they may change from call to call.
template <class M>
void move_to(M& model, Device device, Loc loc = Loc::current()) {
  (void)detail::check_model<M>();
  detail::LeafList leaves;
  weft::detail::flatten(model, leaves);
  for (const weft::detail::Leaf& leaf : leaves.leaves)
    if (holds_tensor(leaf.kind) && leaf.tensor().defined() && leaf.tensor().rank(loc) > 0)
      leaf.tensor() = to(leaf.tensor(), device, loc);
}

}  // namespace weft::nn
