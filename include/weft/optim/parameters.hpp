// What optimizers share: the parameters of a model beside their gradients, groups with options of their own, and how
// new values are rounded.
#pragma once
#include <initializer_list>
#include <limits>
#include <optional>
#include <vector>

#include "weft/detail/walk.hpp"
#include "weft/flatten.hpp"
#include "weft/ops.hpp"

namespace weft::optim {

namespace detail {
using weft::detail::LeafList;

// A number in the place of options. Nothing is deduced of {}, which are the options.
template <class T>
concept Rate = std::is_arithmetic_v<T>;

// A model's parameters and their gradients, in the order of declaration.
class Parameters {
 public:
  template <class M>
  Parameters(const M& model) : description_(&weft::detail::Description<M>::value) {
    (void)weft::detail::check_model<M>();
    if constexpr (weft::detail::Flattenable<M>) weft::detail::flatten(model, leaves_);  // else check_model has failed
    select();
  }
  template <class M>
  Parameters(M& model, const M& gradients, Loc loc) : Parameters(model) {
    if constexpr (weft::detail::Flattenable<M>) weft::detail::flatten(gradients, gradient_leaves_);
    match_gradients(loc);
  }
  std::size_t size() const { return positions_.size(); }
  Tensor& parameter(std::size_t i) const { return leaves_.leaves[positions_[i]].tensor(); }
  const Tensor& gradient(std::size_t i) const { return gradient_leaves_.leaves[positions_[i]].tensor(); }
  bool trains(std::size_t i) const;
  bool is_frozen(std::size_t i) const { return leaves_.leaves[positions_[i]].flag; }
  // Throws Error where a parameter is a part (distributed::fully_shard), and the optimizer `name` computes with more
  // than one element of a parameter at a time.
  void require_whole(const char* name, Loc loc) const;
  // The path of one: layers[0].weight; empty where the model is a parameter.
  std::string path(std::size_t i) const;
  // Whether the path of each is of the pattern (tree::matches).
  std::vector<std::uint8_t> named(const char* pattern) const;
  // Keeps in view those of which `kept` says so; the others are there, but undefined to zeros() and never trained.
  void keep(const std::vector<std::uint8_t>& kept) { kept_ = kept; }
  bool is_kept(std::size_t i) const { return kept_.empty() || kept_[i]; }
  // Whether steps go along the gradients and not against them.
  void set_ascent(bool ascends) { ascends_ = ascends; }
  bool ascends() const { return ascends_; }
  // A buffer of zeros for each, undefined for what is undefined.
  std::vector<Buffer> zeros(Loc loc) const;

 private:
  void select();
  void match_gradients(Loc loc);

  const weft::detail::TypeDescription* description_;
  LeafList leaves_, gradient_leaves_;
  std::vector<std::size_t> positions_;
  std::vector<std::uint8_t> kept_;
  bool ascends_ = false;
};

// Whether a number that was a literal 0 still is 0: an argument of a trace, or a 0 that was read from a file.
bool is_still_zero(const Tensor& number);

// A number that may be 0 from the start, which means none: a momentum, a weight decay. It is a Scalar of which guards
// say, beside what they say of any Scalar, whether it is a literal 0: flattening takes it for a variant, and the
// alternative says so.
template <class... Alternatives>
class MaybeZeroOf : public Scalar {
 public:
  static constexpr const char* alternative_names[] = {"the literal 0", "a number that may not be 0"};

  explicit MaybeZeroOf(double value) : Scalar(value), is_none_(value == 0) {
    if (is_none_) zero_ = tensor();
  }
  MaybeZeroOf& operator=(double value) {
    Scalar::operator=(Scalar(value));
    zero_ = is_none_ && value == 0 ? tensor() : Tensor();
    return *this;
  }
  MaybeZeroOf& operator=(const Scalar& value) {
    Scalar::operator=(value);
    zero_ = Tensor();
    return *this;
  }
  // Whether it was 0 from the start and is known to be 0.
  bool is_zero() const { return zero_.defined() && (tensor().same(zero_) || is_still_zero(tensor())); }

  std::size_t index() const { return is_zero() ? 0 : 1; }
  bool valueless_by_exception() const { return false; }

 private:
  bool is_none_;  // it was 0 from the start
  Tensor zero_;   // the literal 0 that it was given; undefined where it was given another number
};
using MaybeZero = MaybeZeroOf<Scalar, Scalar>;
template <std::size_t index, class M>
requires std::is_base_of_v<MaybeZero, M>
auto get_if(M* number) -> std::conditional_t<std::is_const_v<M>, const Scalar*, Scalar*> {
  return number->index() == index ? number : nullptr;
}

// update() of an optimizer that has step(parameters, loc).
template <class Optimizer>
struct Updated {
  template <class M>
  void update(M& model, const M& gradients, Loc loc = Loc::current()) {
    Parameters parameters(model, gradients, loc);
    parameters.set_ascent(static_cast<Optimizer*>(this)->maximize);
    static_cast<Optimizer*>(this)->step(parameters, loc);
  }
};
}  // namespace detail

// ---- groups of parameters ------------------------------------------------------------------------------------------

// What a group has of its own; the rest is the optimizer's.
inline constexpr double inherited = -std::numeric_limits<double>::infinity();
struct GroupOptions {                               // of a group of parameters
  double lr = inherited, weight_decay = inherited;  // instead of the optimizer's
};
// The parameters whose path is of the pattern (tree::matches), but for those of groups before this one.
struct Group {
  const char* pattern;   // of the parameters' paths
  GroupOptions options;  // what these parameters have of their own
};
using Groups = std::initializer_list<Group>;

struct ParameterGroup {           // numbers of a group, which may change at each step
  Scalar lr, weight_decay;        // of the group, where it has its own
  bool own_lr, own_weight_decay;  // whether the numbers above are in use; else the optimizer's are
};
// The groups of an optimizer, in the order in which they were given: opt.groups[0].lr = 0.1.
class ParameterGroups {
 public:
  // Throws Error where no parameter is of a group's pattern, or a number of a group's is negative.
  ParameterGroups(const detail::Parameters& parameters, Groups groups, Loc loc);
  std::size_t size() const { return list_.size(); }
  ParameterGroup& operator[](std::size_t i) { return list_[i]; }
  // Those of parameter i, given the optimizer's.
  const Scalar& lr(std::size_t i, const Scalar& all) const;
  const Scalar& weight_decay(std::size_t i, const Scalar& all) const;
  // 0 for a parameter of no group, else 1 + its group's number.
  std::size_t group_of(std::size_t i) const;
  // Throws Error where there are groups, and they were made for a model of another number of parameters.
  void require_same_model(const detail::Parameters& parameters, Loc loc) const;

 private:
  std::vector<ParameterGroup> list_;
  std::vector<std::int32_t> group_of_;  // by parameter; empty without groups
  WEFT_MEMBERS(list_, group_of_)
};

// ---- rounding ------------------------------------------------------------------------------------------------------

// How an optimizer rounds the new values of its bf16 parameters: to the nearest, or up or down at random with a chance
// that makes the mean of many roundings the number itself. A step that is less than half of the last bit is lost by the
// first and kept on average by the second, so that weights in bf16 need no f32 copy. Other dtypes go to the nearest.
class StochasticRounding {
 public:
  StochasticRounding() = default;                                         // to the nearest
  StochasticRounding(const std::optional<std::uint64_t>& seed, Loc loc);  // at random where there is a seed
  // The value in this dtype: one draw where it is rounded at random; else the value as it is.
  Tensor round(const Tensor& value, DType dtype, Loc loc);

 private:
  Buffer state_;  // as a Generator's; undefined: to the nearest
  WEFT_MEMBERS(state_)
};

}  // namespace weft::optim
