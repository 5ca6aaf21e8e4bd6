// Models of classes that are known only when the program runs: std::unique_ptr<Layer>, where Layer derives from
// weft::Polymorphic. Each class whose objects are made lists its members once, all of them, those of its bases too.
//   struct Layer : weft::Polymorphic {
//     virtual Tensor operator()(const Tensor& x) const = 0;
//   };
//   struct Scale : Layer {
//     Param by = ones({});
//     Tensor operator()(const Tensor& x) const override { return x * by; }
//     WEFT_MEMBERS(by)
//   };
//   struct Model { std::vector<std::unique_ptr<Layer>> layers; };
// Such a pointer is a part of a model as any other: it may be null. A compiled function guards the class of the object,
// gradients and copies are of the same classes, paths go on with the members (layers.0.by), and a file into which a
// model is saved holds the names of the classes. A Polymorphic class is one base of single inheritance: WEFT_MEMBERS
// refuses a second base with virtual functions, as it refuses a list that leaves something out.
#pragma once
#include "weft/tree.hpp"

namespace weft {

// The base class. What derives from it is held by std::unique_ptr, or by value where the class is known; a function
// that takes a reference to an object of a derived class gets an Error.
class Polymorphic {
 public:
  virtual ~Polymorphic() = default;

 protected:
  Polymorphic() = default;
  Polymorphic(const Polymorphic&) = default;             // for copies of derived objects
  Polymorphic& operator=(const Polymorphic&) = default;  // the same

 private:
  friend struct detail::MemberAccess;
  friend detail::DynamicObject detail::dynamic_of(const Polymorphic& object);
  virtual detail::DynamicObject weft_dynamic() const = 0;  // weft: a class needs WEFT_MEMBERS(a, b), or WEFT_MEMBERS()
};

namespace detail {

// Whether an object of this class can be copied, with what unique_ptr hold inside. A class whose author deleted its
// copy has none.
template <class T>
constexpr bool copies_members() {
  return []<class... Child>(TypeList<Child...>) {
    return !(copyable<Child>() && ...) && (cloneable<Child>() && ...);
  }(child_types<T>());
}
template <class T>
void clone_at(T& place, const T& value) {
  if constexpr (std::is_bounded_array_v<T>)
    for (std::size_t i = 0; i < std::extent_v<T>; ++i) clone_at(place[i], value[i]);
  else
    ::new (static_cast<void*>(&place)) T(clone(value));
}
template <class T>
void destroy_at(T& value) {
  if constexpr (std::is_bounded_array_v<T>)
    for (auto& each : value) destroy_at(each);
  else
    value.~T();
}
// A copy of an object whose class has no copy constructor, since it holds a unique_ptr: copies of the members behind
// the pointer to virtual functions. all_listed() has shown that there is nothing else.
template <class T>
T* clone_members(const T& value) {
  constexpr bool aligned = alignof(T) > __STDCPP_DEFAULT_NEW_ALIGNMENT__;
  void* memory = aligned ? ::operator new(sizeof(T), std::align_val_t(alignof(T))) : ::operator new(sizeof(T));
  __builtin_memcpy(memory, static_cast<const void*>(&value), sizeof(void*));
  T* copy = static_cast<T*>(memory);
  int made = 0;
  try {
    members<T>::visit(value, [&](const auto&... from) {
      members<T>::visit(*copy, [&](auto&... to) { ((clone_at(to, from), ++made), ...); });
    });
  } catch (...) {
    members<T>::visit(*copy, [&](auto&... to) { ((made-- > 0 ? destroy_at(to) : void()), ...); });
    if constexpr (aligned)
      ::operator delete(memory, std::align_val_t(alignof(T)));
    else
      ::operator delete(memory);
    throw;
  }
  return copy;
}
template <class T>
consteval bool check_dynamic() {
  (void)check_model<T>();
  if constexpr (Flattenable<T>)
    static_assert(cloneable<T>() || copies_members<T>(),
                  "weft: a class that derives from weft::Polymorphic must be copyable, but for what unique_ptr hold: "
                  "keep Generators outside the model");
  return true;
}

template <class T>
const DynamicType& dynamic_type() {
  (void)check_dynamic<T>();
  static constinit DynamicType type{
      &typeid(T),
      &Description<T>::value,
      [](const void* object, LeafList& list) {
        list.run(object, sizeof(T));
        flatten(*static_cast<const T*>(object), list);
      },
      [](const void* object) -> void* {
        const T& value = *static_cast<const T*>(object);
        if constexpr (std::is_abstract_v<T>)
          return nullptr;  // no object is of this class
        else if constexpr (copyable<T>())
          return new T(value);
        else
          return clone_members(value);
      },
      [](void* object, PartRecorder& recorder) { recorder.record(*static_cast<T*>(object)); },
      0};
  return type;
}

}  // namespace detail
}  // namespace weft
