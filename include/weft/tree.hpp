// Walks over whole models, by reference and with paths: tree::for_each, tree::map. A model is whatever may be passed to
// a compiled function: structs of tensors, numbers and text, nested in vector, array, tuple, optional, variant, map and
// unique_ptr. The names have a namespace of their own: `map` and `for_each` beside `using namespace std` would be
// ambiguous.
//   tree::for_each(model, [](const char* path, Param& p) { ... });       the parameters
//   tree::for_each(model, gradients, [&](Param& p, const Param& g) { p -= 0.1 * g; });
//   auto halves = tree::map(model, [](const Tensor& t) { return t * 0.5; });
// Which parts of a model a function sees is said by the types of its parameters, and nothing is converted:
// - Param& sees parameters, Buffer& buffers, Scalar& Scalars, std::int64_t& such numbers, and Linear& the layers, whose
//   own parts are then left out. The base of Polymorphic classes, Layer&, sees all objects that are held as such. The
//   types are const references where the model is const.
// - const Tensor& sees what Tensor, Param and Buffer hold.
// - auto, and overloaded functions, see every leaf that holds a tensor (Tensor, Param, Buffer, Scalar, Index) and that
//   they can be called with.
// Before these the function may take the path, a const char*: blocks.3.attn.weight. It is valid during the call.
// A leaf whose tensor is undefined, in one of the models, is left out: a layer's absent bias, and whatever has no
// gradient. Frozen parameters are leaves as others are.
// The parts of models that are walked in step belong together; they have one type, and Error names the first place
// where a length, a key, a presence, an alternative or a class differs.
#pragma once
#include "weft/detail/callable.hpp"
#include "weft/detail/walk.hpp"

namespace weft {
namespace detail {

// A visitor that gets parts of Polymorphic objects as what they are, where they are of one of these types.
template <class Visit, class... Type>
class TypedVisit {
 public:
  explicit TypedVisit(Visit visit) : visit_(visit) {}
  template <class... T>
  bool operator()(const Path& path, T&... part) {
    return visit_(path, part...);
  }
  template <bool... is_const>
  bool operator()(const Path& path, AnyPart<is_const>&... part) {
    return (as<Type>(path, part...) || ...);
  }

 private:
  template <class T, bool... is_const>
  bool as(const Path& path, const AnyPart<is_const>&... part) {
    const bool is_one = (same_class(*part.type->type, typeid(T)) && ...);
    return is_one && visit_(path, *static_cast<std::conditional_t<is_const, const T, T>*>(part.address)...);
  }
  Visit visit_;
};
template <class... Type, class Visit>
TypedVisit<Visit, Type...> typed_visit(Visit visit) {
  return TypedVisit<Visit, Type...>(visit);
}

template <class T>
inline constexpr bool is_tensor_leaf = type_kind<std::remove_const_t<T>>() <= TypeKind::index;
// What a leaf holds; null for what is no leaf of a tensor.
template <class T>
const Tensor* tensor_in(const T& part) {
  if constexpr (std::is_same_v<T, Tensor>)
    return &part;
  else if constexpr (is_tensor_leaf<T>)
    return &part.tensor();
  else
    return nullptr;
}

// Whether a function with this parameter sees a T.
template <class Parameter, class T>
constexpr bool sees() {
  using Wanted = std::remove_cvref_t<Parameter>;
  using Value = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Wanted, Value>)
    return std::is_convertible_v<T&, Parameter>;
  else
    return std::is_same_v<Wanted, Tensor> &&
           (std::is_same_v<Value, Param> ||
            std::is_same_v<Value, Buffer>)&&std::is_convertible_v<const Tensor&, Parameter>;
}
enum class CalledWith : std::uint8_t { nothing, parts, path_and_parts };
template <class Parameters, class... T>
struct CallOf {
  static constexpr CalledWith with = CalledWith::nothing;
};
template <class... P, class... T>
requires(sizeof...(P) == sizeof...(T)) struct CallOf<TypeList<P...>, T...> {
  static constexpr CalledWith with = (sees<P, T>() && ...) ? CalledWith::parts : CalledWith::nothing;
};
template <class First, class... P, class... T>
requires(sizeof...(P) == sizeof...(T)) struct CallOf<TypeList<First, P...>, T...> {
  static constexpr CalledWith with = (sees<P, T>() && ...) ? CalledWith::path_and_parts : CalledWith::nothing;
};
// How F is called with parts of these types.
template <class F, class... T>
constexpr CalledWith called_with() {
  if constexpr (HasSignature<F>)
    return CallOf<typename SignatureOf<F>::Parameters, T...>::with;
  else if constexpr (!(is_tensor_leaf<T> && ...))
    return CalledWith::nothing;
  else if constexpr (std::is_invocable_v<F&, const char*, T&...>)
    return CalledWith::path_and_parts;
  else
    return std::is_invocable_v<F&, T&...> ? CalledWith::parts : CalledWith::nothing;
}
template <class F, class... T>
decltype(auto) call_with(F& f, const Path& path, T&... part) {
  if constexpr (called_with<F, T...>() == CalledWith::path_and_parts)
    return f(path.text(), part...);
  else
    return f(part...);
}
// Whether F names a number: elements of lists of numbers are then visited.
template <class Parameters>
inline constexpr bool names_number = false;
template <class... P>
inline constexpr bool names_number<TypeList<P...>> = (... || packs<std::remove_cvref_t<P>>);
template <class F>
constexpr bool takes_numbers() {
  if constexpr (HasSignature<F>)
    return names_number<typename SignatureOf<F>::Parameters>;
  else
    return false;
}
// The types of parts that F may see in an object of a Polymorphic class.
template <class... Type>
struct PartTypes {
  template <class Visit>
  static auto visit_with(Visit visit) {
    return typed_visit<Type...>(visit);
  }
  template <class Next>
  friend auto operator+(PartTypes, TypeList<Next>) {
    if constexpr (std::is_class_v<Next> || std::is_arithmetic_v<Next> || std::is_enum_v<Next>)
      return PartTypes<Type..., Next>();
    else
      return PartTypes();
  }
};
template <class... P>
auto part_types(TypeList<P...>) {
  return (PartTypes<Tensor, Param, Buffer, Scalar, Index>() + ... + TypeList<std::remove_cvref_t<P>>());
}
template <class F>
auto part_types_of() {
  if constexpr (HasSignature<F>)
    return part_types(typename SignatureOf<F>::Parameters());
  else
    return part_types(TypeList<>());
}
// Whether F's last parameters are references through which it writes into these models, one of which is const.
template <class Parameters, class... M>
struct WritesConst {
  static constexpr bool value = false;
};
template <class... P, class... M>
requires(sizeof...(P) == sizeof...(M)) struct WritesConst<TypeList<P...>, M...> {
  static constexpr bool value =
      ((std::is_const_v<M> && std::is_lvalue_reference_v<P> && !std::is_const_v<std::remove_reference_t<P>>) || ...);
};
template <class First, class... P, class... M>
requires(sizeof...(P) == sizeof...(M)) struct WritesConst<TypeList<First, P...>, M...>
    : WritesConst<TypeList<P...>, M...> {
};
template <class F, class M, class... Others>
consteval bool check_walk() {
  (void)check_model<M>();
  static_assert((std::is_same_v<std::remove_const_t<M>, std::remove_const_t<Others>> && ...),
                "weft: the models that are walked in step must have one type");
  if constexpr (HasSignature<F>)
    static_assert(!WritesConst<typename SignatureOf<F>::Parameters, M, Others...>::value,
                  "weft: the function takes a part of a const model by a reference that is not const: write const "
                  "Param&, say");
  return true;
}
template <class F, class... M>
void for_each_in_step(F& f, Loc loc, M&... models) {
  (void)check_walk<F, M...>();
  auto visit = decltype(part_types_of<F>())::visit_with([&f]<class... T>(const Path& path, T&... part) {
    if constexpr (called_with<F, T...>() != CalledWith::nothing) {
      if (((!tensor_in(part) || tensor_in(part)->defined()) && ...)) (void)call_with(f, path, part...);
      return true;
    } else {
      return false;
    }
  });
  walk<takes_numbers<F>()>(visit, loc, models...);
}
template <class Result, class Part>
inline constexpr bool fits_part = std::is_convertible_v<Result, Part> ||
                                  (is_tensor_leaf<Part> && std::is_same_v<Result, Tensor>);
// Whether what F returns can be the part that it sees; of what has no signature it shows when it is called.
template <class Result, class Parameters>
inline constexpr bool returns_part = false;
template <class Result, class... P>
inline constexpr bool returns_part<Result, TypeList<P...>> = (... || fits_part<Result, std::remove_cvref_t<P>>);
template <class F>
constexpr bool maps() {
  if constexpr (HasSignature<F>)
    return returns_part<typename SignatureOf<F>::Result, typename SignatureOf<F>::Parameters>;
  else
    return true;
}
// What f computes becomes the part; a tensor becomes that of the part, which stays frozen if it was.
template <class Part, class Result>
void replace_part(Part& part, Result&& result) {
  if constexpr (is_tensor_leaf<Part> && std::is_same_v<std::remove_cvref_t<Result>, Tensor> &&
                !std::is_same_v<Part, Tensor>)
    part.tensor() = static_cast<Result&&>(result);
  else
    part = static_cast<Result&&>(result);
}
template <class F, class M, class... Others>
M map_in_step(F& f, Loc loc, const M& model, const Others&... others) {
  (void)check_walk<F, const M, const Others...>();
  static_assert(cloneable<M>(),
                "weft: tree::map(model, f) makes a model of the same type, which must be copyable: keep Generators "
                "outside the model");
  static_assert(maps<F>(),
                "weft: tree::map(model, f): f must return what the part can be made of: a Tensor for a leaf, else a "
                "value of the part's type");
  M result = clone<M>(model);
  auto visit = decltype(part_types_of<F>())::visit_with(
      [&f]<class T, class... Other>(const Path& path, T& part, Other&... other) {
        if constexpr (maps<F>() && called_with<F, const T, Other...>() != CalledWith::nothing) {
          const T& read = part;
          if (!tensor_in(read) || (tensor_in(read)->defined() && ... && tensor_in(other)->defined()))
            replace_part(part, call_with(f, path, read, other...));
          return true;
        } else {
          return false;
        }
      });
  walk<takes_numbers<F>()>(visit, loc, result, others...);
  return result;
}

template <class F>
concept NoLoc = !std::is_same_v<std::remove_cvref_t<F>, Loc>;

}  // namespace detail

namespace tree {

// Calls f for each part that it sees, in the order of declaration: of one model, or of up to four in step, the parts at
// one place together. What f returns is not used.
template <class M, class F>
void for_each(M&& model, F&& f, Loc loc = Loc::current()) {
  detail::for_each_in_step(f, loc, model);
}
template <class A, class B, detail::NoLoc F>
void for_each(A&& a, B&& b, F&& f, Loc loc = Loc::current()) {
  detail::for_each_in_step(f, loc, a, b);
}
template <class A, class B, class C, detail::NoLoc F>
void for_each(A&& a, B&& b, C&& c, F&& f, Loc loc = Loc::current()) {
  detail::for_each_in_step(f, loc, a, b, c);
}
template <class A, class B, class C, class D, detail::NoLoc F>
void for_each(A&& a, B&& b, C&& c, D&& d, F&& f, Loc loc = Loc::current()) {
  detail::for_each_in_step(f, loc, a, b, c, d);
}

// A model of the same type whose parts are what f returns for those that it sees; the others are the first model's.
// A Tensor that f returns for a parameter leaves it as frozen as it was.
template <class M, class F>
M map(const M& model, F&& f, Loc loc = Loc::current()) {
  return detail::map_in_step(f, loc, model);
}
template <class M, detail::NoLoc F>
M map(const M& a, const M& b, F&& f, Loc loc = Loc::current()) {
  return detail::map_in_step(f, loc, a, b);
}
template <class M, detail::NoLoc F>
M map(const M& a, const M& b, const M& c, F&& f, Loc loc = Loc::current()) {
  return detail::map_in_step(f, loc, a, b, c);
}

// A copy of a model, with copies of what its unique_ptr hold, of the same classes. The tensors are shared, as those of
// copies are: a model never changes a tensor's elements.
template <class M>
M clone(const M& model) {
  (void)detail::check_model<M>();
  static_assert(detail::cloneable<M>(),
                "weft: tree::clone(model): the model must be copyable, but for what unique_ptr "
                "hold: keep Generators outside the model");
  return detail::clone(model);
}

// Whether a path matches a pattern, in which * matches any characters, dots too: encoder.*, *.bias.
bool matches(const char* pattern, const char* path);

}  // namespace tree
}  // namespace weft
