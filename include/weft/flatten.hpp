// Flattening: what a user passes (tensors, numbers, text, containers, structs, nested) as a list of plain leaves, in
// order. compile() makes guards of them, value_and_grad places to differentiate, save and load names. In: any value
// whose type is Flattenable. Out: a LeafList for compiled code. Invariant: the list and the type's TypeDescription
// together say everything about the value; two values with equal numbers, text and counts have their tensors at the
// same positions.
#pragma once
#include <iosfwd>
#include <new>
#include <typeinfo>

#include "weft/members.hpp"
#include "weft/tensor.hpp"

namespace weft::detail {

enum class LeafKind : std::uint8_t {
  tensor,  // of a Tensor: `address` is the Tensor*
  param,   // the Tensor* inside; `flag`: frozen; `size`: Param::shard
  buffer,  // the same; `size`: Buffer::shard
  scalar,
  index,
  number,        // `size` bytes (at most 8) at `address`, of an arithmetic type or an enum
  bytes,         // `size` bytes at `address`: the elements of a list of numbers
  text,          // `size` characters at `address`
  length,        // `size` is that of a container
  presence,      // `size` is 1 where an optional or a pointer has a value
  alternative,   // `size` is the position of a variant's; `address`: what errors call each (const char*), or null
  dynamic_type,  // `size` is the number of the class of what a pointer holds, 0: nothing; `address`: its DynamicType
};
inline constexpr bool holds_tensor(LeafKind kind) { return kind <= LeafKind::index; }
inline constexpr bool is_count(LeafKind kind) { return kind >= LeafKind::length; }

// How the callee got the argument: by const reference, by value, or by reference: then it is written back.
enum class Access : std::uint8_t { input, owned, state };

// How a number is printed.
enum class NumberKind : std::uint8_t {
  boolean,
  signed_integer,
  unsigned_integer,
  floating,
  float16,
  bfloat16,
  enumeration
};

struct Leaf {
  void* address;
  std::uint64_t size;
  LeafKind kind;
  NumberKind number;
  bool flag;  // param: frozen; number, text: it is a map's key
  Access access;
  std::uint16_t argument;  // position
  std::uint8_t element;    // number, bytes: the size of one number
  Tensor& tensor() const { return *static_cast<Tensor*>(address); }
  // Whether it is this process's part of a tensor, and which: Param::shard, Buffer::shard.
  std::uint32_t shard() const {
    return kind == LeafKind::param || kind == LeafKind::buffer ? static_cast<std::uint32_t>(size) : 0;
  }
};

// Memory in which the leaves of one argument lie: the argument itself and each list's elements.
struct LeafRun {
  const char* begin;
  const char* end;
  std::uint16_t argument;
  Access access;
};

template <class T>
class GrowingList {
 public:
  GrowingList() = default;
  GrowingList(const GrowingList&) = delete;
  GrowingList& operator=(const GrowingList&) = delete;
  ~GrowingList() { delete[] begin_; }
  void push(const T& element) {
    if (size_ == capacity_) [[unlikely]]
      grow();
    begin_[size_++] = element;
  }
  void clear() { size_ = 0; }
  std::size_t size() const { return size_; }
  const T* begin() const { return begin_; }
  const T* end() const { return begin_ + size_; }
  T* begin() { return begin_; }
  T* end() { return begin_ + size_; }
  const T& operator[](std::size_t i) const { return begin_[i]; }
  T& operator[](std::size_t i) { return begin_[i]; }

 private:
  void grow() {
    std::size_t capacity = capacity_ ? capacity_ * 2 : 32;
    T* grown = new T[capacity];
    for (std::size_t i = 0; i < size_; ++i) grown[i] = begin_[i];
    delete[] begin_;
    begin_ = grown;
    capacity_ = capacity;
  }
  T* begin_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
};

struct LeafList {
  GrowingList<Leaf> leaves;
  GrowingList<LeafRun> runs;
  std::uint16_t argument = 0;
  Access access = Access::input;

  void push(LeafKind kind, const void* address, std::uint64_t size = 0, NumberKind number = {}, bool flag = false,
            std::uint8_t element = 0) {
    leaves.push({const_cast<void*>(address), size, kind, number, flag, access, argument, element});
  }
  void run(const void* begin, std::size_t bytes) {
    runs.push({static_cast<const char*>(begin), static_cast<const char*>(begin) + bytes, argument, access});
  }
  void clear() {
    leaves.clear();
    runs.clear();
    argument = 0;
  }
};

// ---- objects of classes that are known only when the program runs ---------------------------------------------------

struct TypeDescription;
class PartRecorder;
// A class that derives from Polymorphic, erased.
struct DynamicType {
  const std::type_info* type;
  const TypeDescription* description;
  void (*flatten)(const void* object, LeafList& list);
  void* (*clone)(const void* object);  // made by new
  void (*record_parts)(void* object, PartRecorder& recorder);
  mutable std::uint64_t number;  // 0 until it is asked for
};
// The object as its class sees it. Throws Error where the class lists no members of its own.
DynamicObject dynamic_of(const Polymorphic& object);
// Throws Error where the object's class derives from this one.
void require_class(const Polymorphic& object, const DynamicType& type);
void flatten_dynamic(const Polymorphic& object, LeafList& list);
// A number of the class: equal ones in all shared libraries have one number, from 1.
std::uint64_t class_number(const DynamicType& type);
bool same_class(const std::type_info& a, const std::type_info& b);

// ---- which types ----------------------------------------------------------------------------------------------------

enum class TypeKind : std::uint8_t {
  tensor,
  param,
  buffer,
  scalar,
  index,
  number,
  text,
  list,         // std::vector: its length, then the elements
  array,        // std::array, T[n]: the elements
  tuple,        // std::tuple, std::pair
  map,          // std::map with numbers, enums or text for keys: its length, then each key and its value
  optional,     // its presence, then the value
  pointer,      // std::unique_ptr: the same
  polymorphic,  // std::unique_ptr of a class that derives from Polymorphic: the object's class, then its members
  variant,      // its alternative, then the value
  structure,    // a reflected struct
  empty,        // a class without data: nothing
  unsupported,
};

template <class T>
concept ListLike = requires(T& list) {
  typename T::value_type;
  { list.data() } -> std::same_as<typename T::value_type*>;
  list.resize(list.size());
};
template <class T>
concept OptionalLike = requires(T& value) {
  typename T::value_type;
  { value.has_value() } -> std::same_as<bool>;
  { *value } -> std::same_as<typename T::value_type&>;
  value.reset();
};
// Ordered, so that equal maps have their leaves in one order.
template <class T>
concept MapLike = requires(T& map) {
  typename T::mapped_type;
  typename T::key_compare;
  map.emplace_hint(map.end(), map.begin()->first, std::move(map.begin()->second));
};
template <class T>
concept PointerLike = requires(T& pointer) {
  typename T::deleter_type;
  { *pointer } -> std::same_as<typename T::element_type&>;
  pointer.release();
};
template <class T>
inline constexpr bool is_variant = false;
template <template <class...> class Variant, class... T>
requires requires(const Variant<T...>& variant) { variant.valueless_by_exception(); }
inline constexpr bool is_variant<Variant<T...>> = true;

template <class T>
consteval TypeKind type_kind() {
  if (std::is_same_v<T, Tensor>) return TypeKind::tensor;
  if (std::is_same_v<T, Param>) return TypeKind::param;
  if (std::is_same_v<T, Buffer>) return TypeKind::buffer;
  if (std::is_same_v<T, Scalar>) return TypeKind::scalar;
  if (std::is_same_v<T, Index>) return TypeKind::index;
  if (std::is_enum_v<T> || (std::is_arithmetic_v<T> && !std::is_same_v<T, long double>)) return TypeKind::number;
  if (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) return TypeKind::number;
  if (std::is_same_v<T, std::basic_string<char>>) return TypeKind::text;
  if constexpr (std::is_bounded_array_v<T>)
    return TypeKind::array;
  else if constexpr (std::is_class_v<T>) {
    if constexpr (ListLike<T>)
      return TypeKind::list;
    else if constexpr (MapLike<T>)
      return std::is_integral_v<typename T::key_type> || std::is_enum_v<typename T::key_type> ||
                     std::is_same_v<typename T::key_type, std::basic_string<char>>
                 ? TypeKind::map
                 : TypeKind::unsupported;
    else if constexpr (PointerLike<T>)
      return std::is_const_v<typename T::element_type>                  ? TypeKind::unsupported
             : std::is_base_of_v<Polymorphic, typename T::element_type> ? TypeKind::polymorphic
             : std::is_polymorphic_v<typename T::element_type>  // what derives from it may have more members
                 ? TypeKind::unsupported
                 : TypeKind::pointer;
    else if constexpr (OptionalLike<T>)
      return TypeKind::optional;
    else if constexpr (is_variant<T>)
      return TypeKind::variant;
    else if constexpr (TupleLike<T>) {
      if constexpr (requires(T & array) { array.fill(*array.data()); })
        return TypeKind::array;
      else
        return TypeKind::tuple;
    } else if constexpr (Reflected<T>)
      return members<T>::flaw == Flaw::none ? TypeKind::structure : TypeKind::unsupported;
    else if constexpr (std::is_empty_v<T>)
      return TypeKind::empty;
  }
  return TypeKind::unsupported;
}

// The types inside, as a TypeList.
template <class T, int... index>
constexpr auto tuple_types(std::integer_sequence<int, index...>)
    -> TypeList<std::remove_cvref_t<decltype(get<index>(std::declval<T&>()))>...>;
template <template <class...> class Variant, class... T>
constexpr auto variant_types(const Variant<T...>&) -> TypeList<T...>;
template <class T>
constexpr auto child_types() {
  constexpr TypeKind kind = type_kind<T>();
  if constexpr (std::is_bounded_array_v<T>)
    return TypeList<std::remove_extent_t<T>>();
  else if constexpr (kind == TypeKind::list || kind == TypeKind::optional || kind == TypeKind::array)
    return TypeList<typename T::value_type>();
  else if constexpr (kind == TypeKind::map)
    return TypeList<typename T::key_type, typename T::mapped_type>();
  else if constexpr (kind == TypeKind::pointer)
    return TypeList<typename T::element_type>();
  else if constexpr (kind == TypeKind::tuple)
    return decltype(tuple_types<T>(std::make_integer_sequence<int, std::tuple_size<T>::value>()))();
  else if constexpr (kind == TypeKind::variant)
    return decltype(variant_types(std::declval<T&>()))();
  else if constexpr (kind == TypeKind::structure)
    return typename members<T>::types();
  else
    return TypeList<>();
}

template <class T>
struct Found {
  template <class Next>
  friend constexpr auto operator||(Found, Found<Next>) {
    if constexpr (std::is_void_v<T>)
      return Found<Next>();
    else
      return Found();
  }
  using type = T;
};

// The first type inside T, depth first, that has no meaning here; void when all have. Types in `Open` are being looked
// at further up (a tree holds a list of trees).
template <class T, class... Open>
struct FirstUnsupported {
  template <class... Child>
  static constexpr auto first(TypeList<Child...>) {
    return (Found<void>() || ... || Found<typename FirstUnsupported<Child, T, Open...>::type>());
  }
  static constexpr auto find() {
    if constexpr ((std::is_same_v<T, Open> || ...))
      return Found<void>();
    else if constexpr (type_kind<T>() == TypeKind::unsupported)
      return Found<T>();
    else
      return first(child_types<T>());
  }
  using type = typename decltype(find())::type;
};
template <class T>
concept Flattenable = std::is_void_v<typename FirstUnsupported<std::remove_cv_t<T>>::type>;

// Whether a copy can be made of it and of everything inside.
template <class T, class... Open>
constexpr bool copyable() {
  if constexpr ((std::is_same_v<T, Open> || ...))
    return true;
  else if constexpr (!std::is_copy_constructible_v<std::remove_all_extents_t<T>>)
    return false;
  else
    return []<class... Child>(TypeList<Child...>) { return (copyable<Child, T, Open...>() && ...); }(child_types<T>());
}

// The same, but that what a unique_ptr holds is copied with it. A class whose author deleted its copy has none.
template <class T, class... Open>
constexpr bool cloneable() {
  constexpr TypeKind kind = type_kind<T>();
  if constexpr ((std::is_same_v<T, Open> || ...) || kind == TypeKind::polymorphic || copyable<T>())
    return true;
  else if constexpr (kind == TypeKind::unsupported || std::is_bounded_array_v<T> ||
                     (kind == TypeKind::structure && !std::is_aggregate_v<T>))
    return false;
  else
    return []<class... Child>(TypeList<Child...>) {
      return sizeof...(Child) > 0 && ((!std::is_bounded_array_v<Child> && cloneable<Child, T, Open...>()) && ...);
    }(child_types<T>());
}
[[noreturn]] void refuse_valueless();
template <class T, int index = 0>
T clone_alternative(const T& value);
template <class T>
T clone(const T& value) {
  constexpr TypeKind kind = type_kind<T>();
  if constexpr (copyable<T>()) {
    return value;
  } else if constexpr (kind == TypeKind::pointer) {
    return T(value ? new typename T::element_type(clone(*value)) : nullptr);
  } else if constexpr (kind == TypeKind::polymorphic) {
    if (!value) return T();
    const DynamicObject from = dynamic_of(*value);
    const auto offset = reinterpret_cast<const char*>(&*value) - static_cast<const char*>(from.object);
    return T(reinterpret_cast<typename T::element_type*>(static_cast<char*>(from.type->clone(from.object)) + offset));
  } else if constexpr (kind == TypeKind::optional) {
    T result;
    if (value.has_value()) result.emplace(clone(*value));
    return result;
  } else if constexpr (kind == TypeKind::list) {
    T result;
    for (const auto& element : value) result.push_back(clone(element));
    return result;
  } else if constexpr (kind == TypeKind::map) {
    T result;
    for (const auto& entry : value) result.emplace_hint(result.end(), entry.first, clone(entry.second));
    return result;
  } else if constexpr (kind == TypeKind::array || kind == TypeKind::tuple) {
    return [&]<int... index>(std::integer_sequence<int, index...>) { return T{clone(get<index>(value))...}; }
    (std::make_integer_sequence<int, std::tuple_size<T>::value>());
  } else if constexpr (kind == TypeKind::variant) {
    return clone_alternative(value);
  } else {
    return members<T>::visit(value, [](const auto&... member) { return T{clone(member)...}; });
  }
}
template <class T, int index>
T clone_alternative(const T& value) {
  if (const auto* held = get_if<index>(&value)) return T(clone(*held));
  if constexpr (index + 1 < decltype(child_types<T>())::size) return clone_alternative<T, index + 1>(value);
  refuse_valueless();
}

// ---- a type's description, for the names of leaves ------------------------------------------------------------------

struct TypeDescription {
  TypeKind kind;
  int child_count;  // array: one, repeated `repeat` times
  std::size_t repeat;
  bool packed;              // list, array: of numbers, one `bytes` leaf
  const MemberName* names;  // structure
  const TypeDescription* const* children;
};

template <class T>
inline constexpr bool packs = type_kind<T>() == TypeKind::number;

template <class T>
constexpr TypeDescription make_description();
template <class T>
struct Description {
  static const TypeDescription value;
};
template <class... Child>
struct ChildDescriptions {
  static constexpr const TypeDescription* list[sizeof...(Child) + 1] = {&Description<Child>::value..., nullptr};
};
template <class T>
constexpr TypeDescription make_description() {
  return []<class... Child>(TypeList<Child...>) {
    TypeDescription description{
        type_kind<T>(), sizeof...(Child), 1, (packs<Child> && ... && true), nullptr, ChildDescriptions<Child...>::list};
    if constexpr (std::is_bounded_array_v<T>)
      description.repeat = std::extent_v<T>;
    else if constexpr (type_kind<T>() == TypeKind::array)
      description.repeat = std::tuple_size<T>::value;
    if constexpr (type_kind<T>() == TypeKind::structure) description.names = members<T>::names;
    return description;
  }(child_types<T>());
}
template <class T>
constexpr TypeDescription Description<T>::value = make_description<T>();

// ---- the visit ------------------------------------------------------------------------------------------------------

template <class T>
constexpr NumberKind number_kind() {
  if (std::is_enum_v<T>) return NumberKind::enumeration;
  if (std::is_same_v<T, bool>) return NumberKind::boolean;
  if (std::is_floating_point_v<T>) return NumberKind::floating;
  if (std::is_same_v<T, float16>) return NumberKind::float16;
  if (std::is_same_v<T, bfloat16>) return NumberKind::bfloat16;
  return std::is_signed_v<T> ? NumberKind::signed_integer : NumberKind::unsigned_integer;
}

template <class T>
void flatten(T& value, LeafList& list);

template <class T>
void flatten_elements(T* elements, std::size_t count, LeafList& list) {
  if constexpr (packs<std::remove_const_t<T>>) {
    list.push(LeafKind::bytes, elements, count * sizeof(T), number_kind<std::remove_const_t<T>>(), false, sizeof(T));
  } else {
    for (std::size_t i = 0; i < count; ++i) flatten(elements[i], list);
  }
}

// Appends the leaves of `value`. Addresses inside a const value are for reading.
template <class T>
void flatten(T& value, LeafList& list) {
  using Value = std::remove_const_t<T>;
  constexpr TypeKind kind = type_kind<Value>();
  static_assert(kind != TypeKind::unsupported,
                "weft: this is or holds a type that has no meaning to Weft (a pointer, say, or a class that needs "
                "WEFT_MEMBERS(a, b, ...) inside: one with a constructor or private members)");
  if constexpr (kind == TypeKind::tensor)
    list.push(LeafKind::tensor, &value);
  else if constexpr (kind == TypeKind::param)
    list.push(LeafKind::param, &value.tensor(), value.shard, {}, value.frozen);
  else if constexpr (kind == TypeKind::buffer)
    list.push(LeafKind::buffer, &value.tensor(), value.shard);
  else if constexpr (kind == TypeKind::scalar)
    list.push(LeafKind::scalar, &value.tensor());
  else if constexpr (kind == TypeKind::index)
    list.push(LeafKind::index, &value.tensor());
  else if constexpr (kind == TypeKind::number)
    list.push(LeafKind::number, &value, sizeof value, number_kind<Value>(), false, sizeof value);
  else if constexpr (kind == TypeKind::text)
    list.push(LeafKind::text, value.data(), value.size());
  else if constexpr (kind == TypeKind::list) {
    list.push(LeafKind::length, nullptr, value.size());
    list.run(value.data(), value.size() * sizeof *value.data());
    flatten_elements(value.data(), value.size(), list);
  } else if constexpr (std::is_bounded_array_v<Value>)
    flatten_elements(&value[0], std::extent_v<Value>, list);
  else if constexpr (kind == TypeKind::array)
    flatten_elements(value.data(), value.size(), list);
  else if constexpr (kind == TypeKind::tuple) {
    [&]<int... index>(std::integer_sequence<int, index...>) { (flatten(get<index>(value), list), ...); }
    (std::make_integer_sequence<int, std::tuple_size<Value>::value>());
  } else if constexpr (kind == TypeKind::map) {
    list.push(LeafKind::length, nullptr, value.size());
    for (auto& entry : value) {
      list.run(&entry, sizeof entry);
      if constexpr (type_kind<typename Value::key_type>() == TypeKind::text)
        list.push(LeafKind::text, entry.first.data(), entry.first.size(), {}, true);
      else
        list.push(LeafKind::number, &entry.first, sizeof entry.first, number_kind<typename Value::key_type>(), true,
                  sizeof entry.first);
      flatten(entry.second, list);
    }
  } else if constexpr (kind == TypeKind::optional) {
    list.push(LeafKind::presence, nullptr, value.has_value());
    if (value.has_value()) flatten(*value, list);
  } else if constexpr (kind == TypeKind::pointer) {
    const bool present = value != nullptr;
    list.push(LeafKind::presence, nullptr, present);
    if (!present) return;
    list.run(&*value, sizeof *value);
    flatten(*value, list);
  } else if constexpr (kind == TypeKind::polymorphic) {
    if (value)
      flatten_dynamic(*value, list);
    else
      list.push(LeafKind::dynamic_type, nullptr);
  } else if constexpr (kind == TypeKind::variant) {
    if (value.valueless_by_exception()) refuse_valueless();
    if constexpr (requires { Value::alternative_names; })
      list.push(LeafKind::alternative, Value::alternative_names, value.index());
    else
      list.push(LeafKind::alternative, nullptr, value.index());
    [&]<int... index, class... Alternative>(std::integer_sequence<int, index...>, TypeList<Alternative...>) {
      ((value.index() == index ? flatten(*get_if<index>(&value), list) : void()), ...);
    }
    (std::make_integer_sequence<int, decltype(child_types<Value>())::size>(), child_types<Value>());
  } else if constexpr (kind == TypeKind::structure) {
    if constexpr (std::is_base_of_v<Polymorphic, Value> && !std::is_final_v<Value>)
      require_class(value, dynamic_type<Value>());
    members<Value>::visit(value, [&list](auto&... member) { (flatten(member, list), ...); });
  }
}

// Calls `visit(context, leaf, path)` for each leaf of one flattened value with the members and positions on the way to
// it: blocks.3.attn.w. The path of a value that is a leaf itself is empty. Returns the number of leaves.
using LeafVisitor = void (*)(void* context, const Leaf& leaf, const char* path);
std::size_t visit_paths(const TypeDescription& description, const Leaf* leaves, void* context, LeafVisitor visit);

}  // namespace weft::detail
