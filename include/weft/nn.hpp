// Layers and losses. A module is a plain struct of parameters and other modules that can be called; nothing is
// registered. Also what is done to whole models: naming, freezing and initializing their parameters.
#pragma once
#include <vector>

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

// ---- losses: means over all elements, NaN of none -------------------------------------------------------------------

// -log softmax(logits)[label] over the last axis: logits [..., classes], labels integers [...]. A label outside
// [0, classes) is an error.
Tensor cross_entropy(At logits, At labels);
// Equal shapes.
Tensor mse_loss(At prediction, At target);

using weft::gelu;
using weft::relu;
using weft::silu;
using weft::softmax;

// ---- whole models --------------------------------------------------------------------------------------------------

struct NamedParameter {
  const char* name;  // blocks.3.attn.weight; lives as long as the process
  Tensor value;
  bool frozen;
};

namespace detail {
using weft::detail::Leaf;
using weft::detail::LeafList;
using weft::detail::TypeDescription;
using weft::detail::TypeKind;
std::vector<NamedParameter> named_parameters(const LeafList& leaves, const TypeDescription& description);

// The way to a part of a model: text that grows and shrinks.
class Path {
 public:
  const char* text() const { return text_; }
  // Puts ".name" or ".number" behind until the end of the block.
  class Step {
   public:
    Step(Path& path, MemberName name);
    Step(Path& path, std::size_t number);
    ~Step();
    Step(const Step&) = delete;

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
  constexpr TypeKind kind = type_kind<T>();
  auto step = [&](auto& part, auto where) {
    Path::Step step(path, where);
    walk(part, visit, path);
  };
  if constexpr (kind == TypeKind::list || kind == TypeKind::array) {
    std::size_t i = 0;
    for (auto& element : value) step(element, i++);
  } else if constexpr (kind == TypeKind::tuple) {
    [&]<int... index>(std::integer_sequence<int, index...>) {
      (step(get<index>(value), static_cast<std::size_t>(index)), ...);
    }
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
    }(weft::detail::child_types<T>());
  } else if constexpr (kind == TypeKind::structure) {
    const MemberName* name = members<T>::names;
    members<T>::visit(value, [&](auto&... member) { (step(member, *name++), ...); });
  }
}
}  // namespace detail

// The parameters in the order of their declaration, with their paths.
template <class M>
std::vector<NamedParameter> parameters(const M& model) {
  detail::LeafList leaves;
  weft::detail::flatten(model, leaves);
  return detail::named_parameters(leaves, weft::detail::Description<M>::value);
}

// A frozen parameter is not differentiated and not updated.
template <class M>
void freeze(M& model, bool frozen = true) {
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
  detail::LeafList leaves;
  weft::detail::flatten(model, leaves);
  for (const weft::detail::Leaf& leaf : leaves.leaves)
    if (holds_tensor(leaf.kind) && leaf.tensor().defined() && leaf.tensor().rank(loc) > 0)
      leaf.tensor() = to(leaf.tensor(), device, loc);
}

}  // namespace weft::nn
