// Walks over whole models, by reference and with paths: tree::for_each, tree::map. A model is whatever may be passed to
// a compiled function: structs of tensors, numbers and text, nested in vector, array, tuple, optional, variant, map and
// unique_ptr. The names have a namespace of their own: `map` and `for_each` beside `using namespace std` would be
// ambiguous.
//   tree::for_each(model, [](const char* path, Param& p) { ... });       the parameters
//   tree::for_each(model, gradients, [&](Param& p, const Param& g) { p -= 0.1 * g; });
//   auto halves = tree::map(model, [](const Tensor& t) { return t * 0.5; });
// Which parts of a model a function sees is said by the types of its parameters, and nothing is converted:
// - Param& sees parameters, Buffer& buffers, Scalar& Scalars, std::int64_t& such numbers, and Linear& the layers, whose
//   own parts are then left out. The types are const references where the model is const.
// - const Tensor& sees what Tensor, Param and Buffer hold.
// - auto, and overloaded functions, see every leaf that holds a tensor (Tensor, Param, Buffer, Scalar, Index) and that
//   they can be called with.
// Before these the function may take the path, a const char*: blocks.3.attn.weight. It is valid during the call.
// A leaf whose tensor is undefined, in one of the models, is left out: a layer's absent bias, and whatever has no
// gradient. Frozen parameters are leaves as others are.
// The parts of models that are walked in step belong together; they have one type, and Error names the first place
// where a length, a key, a presence or an alternative differs.
#pragma once
#include "weft/detail/callable.hpp"
#include "weft/detail/refuse.hpp"
#include "weft/flatten.hpp"

namespace weft {
namespace detail {

// The way to a part of a model: text that grows and shrinks.
class Path {
 public:
  const char* text() const { return text_; }
  const char* interned() const;  // lives as long as the process
  // Appends ".name", or ".number" where there is no name, until the end of the block.
  class Segment {
   public:
    Segment(Path& path, std::int64_t number, MemberName name = {});
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
[[noreturn]] void refuse_other_structure(const Path& path, const char* what, std::uint64_t first, std::uint64_t other,
                                         Loc loc);

// What holds anything that cannot be looked into is refused.
template <class M>
consteval bool check_model() {
  using Offending = typename FirstUnsupported<std::remove_const_t<M>>::type;
  (void)check_members<Offending>();
  static_assert(std::is_void_v<Offending> || flaw_of<Offending>() != Flaw::none,
                "weft: a model is or holds a type that has no meaning to Weft (a pointer, say, or a class that needs "
                "WEFT_MEMBERS)");
  return true;
}

// The type of a part of a T: const where T is.
template <class T, class Part>
using PartOf = std::conditional_t<std::is_const_v<T>, const Part, Part>;

// Walks one model, or several of one type in step. Calls visit(path, part, part...) for each and then for what is
// inside; true: what is inside is left out. Elements of lists of numbers are visited where `numbers` is true.
template <bool numbers, class Visit>
class Walk {
 public:
  Walk(Visit& visit, Loc loc) : visit_(visit), loc_(loc) {}

  template <class T, class... Others>
  void operator()(T& value, Others&... others) {
    if (visit_(path_, value, others...)) return;
    using Value = std::remove_const_t<T>;
    constexpr TypeKind kind = type_kind<Value>();
    if constexpr (kind == TypeKind::list || kind == TypeKind::array) {
      const std::size_t count = std::size(value);
      (require_same("length", count, std::size(others)), ...);
      if constexpr (numbers || !packs<std::remove_cvref_t<decltype(value[0])>>)
        for (std::size_t i = 0; i < count; ++i) step(static_cast<std::int64_t>(i), {}, value[i], others[i]...);
    } else if constexpr (kind == TypeKind::tuple) {
      [&]<int... index>(std::integer_sequence<int, index...>) { (tuple_part<index>(value, others...), ...); }
      (std::make_integer_sequence<int, std::tuple_size<Value>::value>());
    } else if constexpr (kind == TypeKind::map) {
      (require_same("length", value.size(), others.size()), ...);
      for (auto& entry : value) {
        const auto& key = entry.first;
        (require_same("presence of a key", 1, others.count(key)), ...);
        if constexpr (type_kind<typename Value::key_type>() == TypeKind::text)
          step(0, {key.data(), static_cast<unsigned>(key.size())}, entry.second, others.find(key)->second...);
        else
          step(static_cast<std::int64_t>(key), {}, entry.second, others.find(key)->second...);
      }
    } else if constexpr (kind == TypeKind::optional || kind == TypeKind::pointer) {
      const bool present = static_cast<bool>(value);
      (require_same("presence", present, static_cast<bool>(others)), ...);
      if (present) (*this)(inside(value), inside(others)...);
    } else if constexpr (kind == TypeKind::variant) {
      if (value.valueless_by_exception()) refuse_valueless();
      (require_same("alternative", value.index(), others.index()), ...);
      [&]<int... index>(std::integer_sequence<int, index...>) {
        ((value.index() == index ? held<index>(value, others...) : void()), ...);
      }
      (std::make_integer_sequence<int, decltype(child_types<Value>())::size>());
    } else if constexpr (kind == TypeKind::structure) {
      Members<Value> list[] = {Members<Value>(value), Members<Value>(others)...};
      [&]<class... Member>(TypeList<Member...>) {
        int index = 0;
        (member<Member, T, Others...>(index++, members<Value>::names, list), ...);
      }(child_types<Value>());
    }
  }

 private:
  // The addresses of a struct's members.
  template <class Value>
  struct Members {
    template <class T>
    explicit Members(T& value) {
      members<Value>::visit(value, [this](auto&... member) {
        int i = 0;
        ((at[i++] = const_cast<void*>(static_cast<const volatile void*>(&member))), ...);
      });
    }
    void* at[members<Value>::count + 1];
  };
  template <class Member, class... T, class Value>
  void member(int index, const MemberName* names, Members<Value>* list) {
    [&]<int... i>(std::integer_sequence<int, i...>) {
      step(index, names[index], *static_cast<PartOf<T, Member>*>(list[i].at[index])...);
    }
    (std::make_integer_sequence<int, sizeof...(T)>());
  }
  template <int index, class... T>
  void tuple_part(T&... value) {
    step(index, {}, get<index>(value)...);
  }
  template <int index, class... T>
  void held(T&... variant) {
    (*this)(*get_if<index>(&variant)...);
  }
  template <class T>
  static auto& inside(T& holder) {
    using Part = std::remove_reference_t<decltype(*holder)>;
    return static_cast<PartOf<T, Part>&>(*holder);
  }
  template <class... T>
  void step(std::int64_t number, MemberName name, T&... part) {
    Path::Segment segment(path_, number, name);
    (*this)(part...);
  }
  void require_same(const char* what, std::uint64_t first, std::uint64_t other) const {
    if (first != other) refuse_other_structure(path_, what, first, other, loc_);
  }

  Visit& visit_;
  Loc loc_;
  Path path_;
};
template <bool numbers = false, class Visit, class... T>
void walk(Visit& visit, Loc loc, T&... models) {
  Walk<numbers, Visit>(visit, loc)(models...);
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
  auto visit = [&f]<class... T>(const Path& path, T&... part) {
    if constexpr (called_with<F, T...>() != CalledWith::nothing) {
      if (((!tensor_in(part) || tensor_in(part)->defined()) && ...)) (void)call_with(f, path, part...);
      return true;
    } else {
      return false;
    }
  };
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
  auto visit = [&f]<class T, class... Other>(const Path& path, T& part, Other&... other) {
    if constexpr (maps<F>() && called_with<F, const T, Other...>() != CalledWith::nothing) {
      const T& read = part;
      if (!tensor_in(read) || (tensor_in(read)->defined() && ... && tensor_in(other)->defined()))
        replace_part(part, call_with(f, path, read, other...));
      return true;
    } else {
      return false;
    }
  };
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

// Whether a path matches a pattern, in which * matches any characters, dots too: encoder.*, *.bias.
bool matches(const char* pattern, const char* path);

}  // namespace tree
}  // namespace weft
