// The walk over the parts of a model, or of several of one type in step, with their paths. What a visitor makes of them
// is weft/tree.hpp.
#pragma once
#include "weft/detail/refuse.hpp"
#include "weft/flatten.hpp"

namespace weft {
class Generator;  // weft/random.hpp
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

template <class T>
concept HasMode = requires(T& part) {
  requires std::is_same_v<decltype(part.training), bool>;
};
template <class T>
concept HasInitialize = requires(T& part, Generator& generator) {
  part.initialize(generator);
};
// The type of a part, and what it offers.
struct PartType {
  const std::type_info* type;
  bool* (*training)(void* part);                         // null where it has no mode
  void (*initialize)(void* part, Generator& generator);  // null where it draws nothing
};
template <class T>
consteval PartType make_part_type() {
  PartType type{&typeid(T), nullptr, nullptr};
  if constexpr (HasMode<T>) type.training = [](void* part) { return &static_cast<T*>(part)->training; };
  if constexpr (HasInitialize<T>)
    type.initialize = [](void* part, Generator& generator) { static_cast<T*>(part)->initialize(generator); };
  return type;
}
template <class T>
inline constexpr PartType part_type = make_part_type<T>();
// A part of an object of a Polymorphic class, erased.
template <bool is_const>
struct AnyPart {
  void* address;
  const PartType* type;
};
template <class T>
inline constexpr bool is_any_part = false;
template <bool is_const>
inline constexpr bool is_any_part<AnyPart<is_const>> = true;

// The parts of an object of a Polymorphic class, in the order of a walk, of which it is the visitor.
class PartRecorder {
 public:
  PartRecorder(const Polymorphic& object, bool numbers);
  template <class T>
  void record(T& object);
  template <class T>
  bool operator()(const Path& path, T& part) {
    constexpr TypeKind kind = type_kind<T>();
    const char* what = "length";
    std::uint64_t count = 0;
    bool skipped = false;
    if constexpr (kind == TypeKind::list || kind == TypeKind::array)
      skipped = !numbers_ && packs<std::remove_cvref_t<decltype(part[0])>>;
    if constexpr (kind == TypeKind::list || kind == TypeKind::map)
      count = part.size();
    else if constexpr (kind == TypeKind::optional || kind == TypeKind::pointer || kind == TypeKind::polymorphic)
      what = "presence", count = static_cast<bool>(part);
    else if constexpr (kind == TypeKind::variant)
      what = "alternative", count = part.index();
    push(path, &part, part_type<T>, what, count);
    return skipped;
  }
  void close(std::size_t part) { parts_[part].end = parts_.size(); }  // what follows is not inside

  std::size_t size() const { return parts_.size(); }
  template <bool is_const>
  AnyPart<is_const> part(std::size_t i) const {
    return {parts_[i].address, parts_[i].type};
  }
  std::size_t end(std::size_t i) const { return parts_[i].end; }
  MemberName path(std::size_t i) const { return {text_.begin() + parts_[i].text, parts_[i].text_size}; }
  // Throws Error where the part is another one in `other`, which belongs to it.
  void require_same(std::size_t i, const PartRecorder& other, const Path& outer, Loc loc) const;

 private:
  struct Part {
    void* address;
    const PartType* type;
    const char* what;     // `count` is
    std::uint64_t count;  // a length, a presence or an alternative
    std::size_t end;      // of what is inside
    std::size_t text;     // where its path begins in text_
    unsigned text_size;
  };
  void push(const Path& path, void* address, const PartType& type, const char* what, std::uint64_t count);

  GrowingList<Part> parts_;
  GrowingList<char> text_;
  Path path_;
  bool numbers_;
};

// Walks one model, or several of one type in step. Calls visit(path, part, part...) for each and then for what is
// inside; true: what is inside is left out. Elements of lists of numbers are visited where `numbers` is true. Parts of
// objects of Polymorphic classes are given as AnyPart.
template <bool numbers, class Visit>
class Walk {
 public:
  Walk(Visit& visit, Loc loc, Path& path) : visit_(visit), loc_(loc), path_(path) {}

  template <class T, class... Others>
  void operator()(T& value, Others&... others) {
    const std::size_t place = position();
    if (visit_(path_, value, others...)) return;
    inner(value, others...);
    close(place);
  }

 private:
  static constexpr bool records = std::is_same_v<Visit, PartRecorder>;
  std::size_t position() const {
    if constexpr (records) return visit_.size();
    return 0;
  }
  void close(std::size_t place) {
    if constexpr (records) visit_.close(place);
  }
  template <class T, class... Others>
  void inner(T& value, Others&... others) {
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
    } else if constexpr (kind == TypeKind::polymorphic) {
      const bool present = static_cast<bool>(value);
      (require_same("presence", present, static_cast<bool>(others)), ...);
      if (present) object(inside(value), inside(others)...);
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
  // An object of a Polymorphic class: as one of the base, then as one of its own class, then what is inside.
  template <class Base, class... Others>
  void object(Base& base, Others&... others) {
    const std::size_t place = position();
    if (visit_(path_, base, others...)) return;
    if constexpr (records) {
      const DynamicObject own = dynamic_of(base);
      own.type->record_parts(const_cast<void*>(own.object), visit_);
      close(place);
    } else {
      const PartRecorder list[] = {PartRecorder(base, numbers), PartRecorder(others, numbers)...};
      for (std::size_t i = 0; i < list[0].size();) {
        for (std::size_t other = 1; other < std::size(list); ++other) list[0].require_same(i, list[other], path_, loc_);
        const auto visit = [&]<int... other>(std::integer_sequence<int, other...>) {
          return [&](auto... part) { return visit_(path_, part...); }(
                     list[0].template part<std::is_const_v<Base>>(i),
                     list[other + 1].template part<std::is_const_v<Others>>(i)...);
        };
        const bool skip = [&] {
          constexpr std::make_integer_sequence<int, sizeof...(Others)> each;
          if (list[0].path(i).size == 0) return visit(each);
          Path::Segment segment(path_, 0, list[0].path(i));
          return visit(each);
        }();
        i = skip ? list[0].end(i) : i + 1;
      }
    }
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
  Path& path_;
};
template <class T>
void PartRecorder::record(T& object) {
  Walk<true, PartRecorder>(*this, Loc(), path_)(object);
}
template <bool numbers = false, class Visit, class... T>
void walk(Visit& visit, Loc loc, T&... models) {
  Path path;
  Walk<numbers, Visit>(visit, loc, path)(models...);
}

}  // namespace detail
}  // namespace weft
