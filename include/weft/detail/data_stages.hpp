// The stages of data pipelines (weft/data/pipeline.hpp), and what compiled code does for them. A stage has size(), the
// number of elements of each of its passes, and start(), which begins one. A pass has at(i), which several threads may
// call where it is random_access; else it is called for 0, 1, 2, ... by one thread. Where it can copy many rows at once
// it has gather(indices). The pass of threads may have fewer elements than its stage's size(), as bad samples are left
// out: it, and what takes from it, has next() instead of at(i), which gives an element that the caller deletes, or null
// at the end.
#pragma once
#include <vector>

#include "weft/flatten.hpp"
#include "weft/random.hpp"

namespace weft::data::detail {

using weft::detail::LeafList;
using weft::detail::TypeDescription;
using weft::detail::TypeKind;

// ---- the compiled part ----------------------------------------------------------------------------------------------

[[noreturn]] void refuse_source(Loc loc);  // without elements
// At most 2^20 where it counts threads or elements that wait.
void check_count(const char* operation, const char* what, std::int64_t least, std::int64_t value, Loc loc);
void check_at_least(const char* operation, const char* what, std::int64_t least, std::int64_t value, Loc loc);
void check_outside_trace(Loc loc);
[[noreturn]] void refuse_skipping(Loc loc);  // after threads
// Of tensors on the host whose first axes are equally long: that length. Throws on others. Computes them.
std::int64_t count_rows(LeafList& leaves, Loc loc);
// Each tensor becomes these of its rows; `one`: the only one, without the first axis.
void take_rows(LeafList& leaves, std::span<const std::int64_t> rows, bool one, Loc loc);
// The tensors of the first of `count` lists become those of all, stacked; texts that are no keys are left alone. Throws
// where elements differ in anything else.
void stack_leaves(const TypeDescription& description, LeafList* lists, std::size_t count, Loc loc);
void compute(LeafList& leaves, Loc loc);
void move_to(LeafList& leaves, Device device, Loc loc);
Generator generator_of_pass(Generator& generator, Loc loc);
Generator generator_of_element(const Generator& of_pass, std::int64_t index, Loc loc);

// An object that its copies share, which the last one drops; copies may be made and end on several threads. Without an
// owner of its own (drop is null) it only refers. std::shared_ptr without its header, which is a fifth of weft.hpp.
class Shared {
 public:
  Shared(const void* object, void (*drop)(const void* object));
  Shared(const Shared& other) noexcept;
  Shared(Shared&& other) noexcept : object_(other.object_), owners_(std::exchange(other.owners_, nullptr)) {}
  ~Shared();
  Shared& operator=(Shared other) noexcept {
    std::swap(object_, other.object_);
    std::swap(owners_, other.owners_);
    return *this;
  }
  const void* object() const { return object_; }

 private:
  struct Owners;
  const void* object_;
  Owners* owners_;
};

// How many samples were left out in the pass that began last; copies of a stage share it. Null: none may be.
Shared count_skipped();
std::int64_t skipped(const Shared& count);

// Elements that threads of its own make, in order: at most `depth` are made or in the making beyond the one that was
// taken last.
class Ahead {
 public:
  struct Source {
    const void* pass;
    std::int64_t count;
    // Called at the same time where there are several threads. Null: there are no more; of one thread alone.
    void* (*make)(const void* pass, std::int64_t index);
    void (*drop)(void* element);
  };
  // With a count of those that are skipped, an element whose making throws an exception is left out and counted, but
  // for a lack of memory. Begins to count anew.
  Ahead(const Source& source, int threads, int depth, const Shared& skipped, Loc loc);
  Ahead(const Source& source, int threads, int depth, Loc loc);  // what programs of earlier headers call
  ~Ahead();  // waits for its threads, which finish the element that they are at
  Ahead(const Ahead&) = delete;
  // The next element; null at the end. Throws what its making threw, and from then on the same again: there is no
  // element after it. Throws Error at the end where all were skipped.
  void* take() const;

 private:
  struct State;
  State* state_;
};

template <class T>
constexpr bool can_flatten() {
  if constexpr (weft::detail::type_kind<T>() == TypeKind::unsupported)
    return false;
  else
    return weft::detail::Flattenable<T>;
}
template <class T>
LeafList& flattened(T& value, LeafList& leaves) {
  leaves.clear();
  weft::detail::flatten(value, leaves);
  return leaves;
}

// ---- stages ---------------------------------------------------------------------------------------------------------

template <class Stage>
using PassOf = decltype(std::declval<const Stage&>().start());
template <class Pass>
concept Ends = requires(const Pass& pass) {
  pass.next();
};
template <class Pass>
struct ElementOfPass {
  using type = decltype(std::declval<const Pass&>().at(0));
};
template <Ends Pass>
struct ElementOfPass<Pass> {
  using type = std::remove_pointer_t<decltype(std::declval<const Pass&>().next())>;
};
template <class Stage>
using ElementOf = typename ElementOfPass<PassOf<Stage>>::type;
template <class Stage>
inline constexpr bool random_access = PassOf<Stage>::random_access;
// The next element of a pass that ends.
template <class Element>
struct Taken {
  explicit Taken(Element* taken) : element(taken) {}
  Taken(const Taken&) = delete;
  ~Taken() { delete element; }
  explicit operator bool() const { return element != nullptr; }
  Element&& operator*() const { return std::move(*element); }
  Element* element;
};
template <class Pass>
concept Gathers = requires(const Pass& pass, std::span<const std::int64_t> rows) {
  pass.gather(rows);
};

// The rows of tensors.
template <class M>
struct Rows {
  M model;
  std::int64_t count;
  Loc loc;

  struct Pass {
    static constexpr bool random_access = true;
    const M* model;
    Loc loc;
    M at(std::int64_t i) const { return take({&i, 1}, true); }
    M gather(std::span<const std::int64_t> rows) const { return take(rows, false); }
    M take(std::span<const std::int64_t> rows, bool one) const {
      M result = *model;
      LeafList leaves;
      take_rows(flattened(result, leaves), rows, one, loc);
      return result;
    }
  };
  std::int64_t size() const { return count; }
  Pass start() const { return {&model, loc}; }
};

// What has size() and operator[].
template <class R>
struct Items {
  Shared shared;
  struct Pass {
    static constexpr bool random_access = true;
    const R* items;
    std::remove_cvref_t<decltype(std::declval<const R&>()[0])> at(std::int64_t i) const {
      return (*items)[static_cast<std::size_t>(i)];
    }
  };
  const R& items() const { return *static_cast<const R*>(shared.object()); }
  std::int64_t size() const { return static_cast<std::int64_t>(items().size()); }
  Pass start() const { return {&items()}; }
};

template <class S>
struct Shuffle {
  S source;
  Generator* generator;
  Loc loc;

  struct Pass {
    static constexpr bool random_access = true;
    PassOf<S> source;
    std::vector<std::int64_t> order;
    auto at(std::int64_t i) const { return source.at(order[static_cast<std::size_t>(i)]); }
    auto gather(std::span<const std::int64_t> rows) const requires Gathers<PassOf<S>> {
      std::vector<std::int64_t> there;
      for (std::int64_t row : rows) there.push_back(order[static_cast<std::size_t>(row)]);
      return source.gather(there);
    }
  };
  std::int64_t size() const { return source.size(); }
  Pass start() const { return {source.start(), permutation(source.size(), *generator, loc)}; }
};

// Elements first, first + 1, ...
template <class S>
struct Part {
  S source;
  std::int64_t first, count;

  struct Pass {
    static constexpr bool random_access = data::detail::random_access<S>;
    PassOf<S> source;
    std::int64_t first, count;
    mutable std::int64_t taken = 0;
    auto at(std::int64_t i) const requires(!Ends<PassOf<S>>) { return source.at(first + i); }
    auto next() const requires Ends<PassOf<S>> { return taken++ < count ? source.next() : nullptr; }
    auto gather(std::span<const std::int64_t> rows) const requires Gathers<PassOf<S>> {
      std::vector<std::int64_t> there;
      for (std::int64_t row : rows) there.push_back(first + row);
      return source.gather(there);
    }
  };
  std::int64_t size() const { return count; }
  Pass start() const { return {source.start(), first, count}; }
};

template <class S, class F>
struct Map {
  S source;
  F f;

  struct Pass {
    static constexpr bool random_access = data::detail::random_access<S>;
    PassOf<S> source;
    const F* f;
    auto at(std::int64_t i) const requires(!Ends<PassOf<S>>) { return (*f)(source.at(i)); }
    auto next() const requires Ends<PassOf<S>> {
      using Element = std::decay_t<decltype((*f)(std::declval<ElementOf<S>>()))>;
      const Taken taken(source.next());
      return taken ? new Element((*f)(*taken)) : nullptr;
    }
  };
  std::int64_t size() const { return source.size(); }
  Pass start() const { return {source.start(), &f}; }
};

template <class S, class F>
struct Augment {
  S source;
  F f;
  Generator* generator;
  Loc loc;

  struct Pass {
    static constexpr bool random_access = data::detail::random_access<S>;
    PassOf<S> source;
    const F* f;
    Generator generator;
    Loc loc;
    mutable std::int64_t taken = 0;
    auto at(std::int64_t i) const requires(!Ends<PassOf<S>>) {
      Generator own = generator_of_element(generator, i, loc);
      return (*f)(source.at(i), own);
    }
    auto next() const requires Ends<PassOf<S>> {
      using Element = std::decay_t<decltype((*f)(std::declval<ElementOf<S>>(), std::declval<Generator&>()))>;
      const Taken element(source.next());
      if (!element) return static_cast<Element*>(nullptr);
      Generator own = generator_of_element(generator, taken++, loc);
      return new Element((*f)(*element, own));
    }
  };
  std::int64_t size() const { return source.size(); }
  Pass start() const { return {source.start(), &f, generator_of_pass(*generator, loc), loc}; }
};

// A number becomes a 0-d tensor, also in a tuple; other elements stay what they are.
template <class T>
auto as_tensors(T element) {
  constexpr TypeKind kind = weft::detail::type_kind<T>();
  if constexpr (kind == TypeKind::number)
    return from_span(std::span<const T>(&element, 1), {});
  else if constexpr (kind == TypeKind::tuple)
    return [&]<template <class...> class Tuple, class... Part>(const Tuple<Part...>& tuple) {
      return [&]<int... i>(std::integer_sequence<int, i...>) {
        return Tuple<decltype(as_tensors(std::declval<Part>()))...>(as_tensors(get<i>(tuple))...);
      }
      (std::make_integer_sequence<int, sizeof...(Part)>());
    }(element);
  else
    return element;
}

// Whether elements are stacked into one of their own type: tensors, in containers and structs. The keys of a map are no
// obstacle: they are the same in all.
template <class T, class... Open>
constexpr bool can_stack() {
  constexpr TypeKind kind = weft::detail::type_kind<T>();
  if constexpr ((std::is_same_v<T, Open> || ...))
    return true;
  else if constexpr (kind == TypeKind::number || kind == TypeKind::text || kind == TypeKind::scalar ||
                     kind == TypeKind::index)
    return false;
  else if constexpr (kind == TypeKind::map)
    return can_stack<typename T::mapped_type, T, Open...>();
  else
    return []<class... Child>(weft::detail::TypeList<Child...>) {
      return (can_stack<Child, T, Open...>() && ...);
    }(weft::detail::child_types<T>());
}
// Whether batch takes elements that as_tensors has made: the texts of a tuple become a vector.
template <class T>
constexpr bool can_batch() {
  if constexpr (weft::detail::type_kind<T>() == TypeKind::text)
    return true;
  else if constexpr (weft::detail::type_kind<T>() == TypeKind::tuple)
    return []<class... Child>(weft::detail::TypeList<Child...>) {
      return (can_batch<Child>() && ...);
    }(weft::detail::child_types<T>());
  else
    return can_stack<T>();
}
// The batch, place by place of tuples: the texts of all elements, and what the first one has, whose tensors are those
// of all. `place` gives the place of an element.
template <class Element, class Place>
auto joined(std::vector<Element>& elements, Place place) {
  using T = std::remove_cvref_t<decltype(place(elements[0]))>;
  if constexpr (weft::detail::type_kind<T>() == TypeKind::text) {
    std::vector<T> texts;
    for (Element& each : elements) texts.push_back(std::move(place(each)));
    return texts;
  } else if constexpr (weft::detail::type_kind<T>() == TypeKind::tuple) {
    return [&]<template <class...> class Tuple, class... Part>(const Tuple<Part...>&) {
      return [&]<int... i>(std::integer_sequence<int, i...>) {
        const auto part = [&]<int at>(std::integral_constant<int, at>) {
          return joined(
              elements, [&](Element & each) -> auto& { return get<at>(place(each)); });
        };
        return Tuple<decltype(part(std::integral_constant<int, i>()))...>(part(std::integral_constant<int, i>())...);
      }
      (std::make_integer_sequence<int, sizeof...(Part)>());
    }(place(elements[0]));
  } else {
    return T(std::move(place(elements[0])));
  }
}

template <class S>
struct Batched {
  S source;
  std::int64_t rows;
  bool drop_last;
  Loc loc;

  struct Pass {
    static constexpr bool random_access = data::detail::random_access<S>;
    using Element = decltype(as_tensors(std::declval<ElementOf<S>>()));
    PassOf<S> source;
    std::int64_t rows, total;
    bool drop_last;
    Loc loc;
    auto at(std::int64_t i) const requires(!Ends<PassOf<S>>) {
      const std::int64_t first = i * rows, count = rows > total - first ? total - first : rows;
      if constexpr (Gathers<PassOf<S>>) {
        std::vector<std::int64_t> there(static_cast<std::size_t>(count));
        for (std::int64_t k = 0; k < count; ++k) there[static_cast<std::size_t>(k)] = first + k;
        return source.gather(there);
      } else {
        std::vector<Element> elements;
        for (std::int64_t k = 0; k < count; ++k) elements.push_back(as_tensors(source.at(first + k)));
        return stacked(elements);
      }
    }
    auto next() const requires Ends<PassOf<S>> {
      std::vector<Element> elements;
      while (static_cast<std::int64_t>(elements.size()) < rows) {
        const Taken taken(source.next());
        if (!taken) break;
        elements.push_back(as_tensors(*taken));
      }
      using Batch = decltype(stacked(elements));
      const bool is_last = static_cast<std::int64_t>(elements.size()) < rows;
      return elements.empty() || (is_last && drop_last) ? nullptr : new Batch(stacked(elements));
    }
    auto stacked(std::vector<Element>& elements) const {
      static_assert(can_flatten<Element>(),
                    "weft: batch stacks tensors, numbers, and structs and tuples of them: map the elements to such");
      static_assert(!can_flatten<Element>() || can_batch<Element>(),
                    "weft: batch can't stack a number or a text inside a struct or a container: make it a Tensor, or "
                    "map the elements to tuples, whose numbers become tensors and whose texts become a vector");
      if constexpr (!can_flatten<Element>() || !can_batch<Element>()) {
        return Element(std::move(elements[0]));  // so that what follows is no further error
      } else {
        std::vector<LeafList> lists(elements.size());
        for (std::size_t k = 0; k < elements.size(); ++k) weft::detail::flatten(elements[k], lists[k]);
        stack_leaves(weft::detail::Description<Element>::value, lists.data(), lists.size(), loc);
        return joined(elements, [](Element& each) -> Element& { return each; });
      }
    }
  };
  std::int64_t size() const { return source.size() / rows + (!drop_last && source.size() % rows != 0); }
  Pass start() const { return {source.start(), rows, source.size(), drop_last, loc}; }
};

template <class S>
struct RunAhead {
  S source;
  int threads, depth;
  Shared skipped;  // null: what making an element throws is thrown to who takes it
  Loc loc;

  class Pass {
    using Element = ElementOf<S>;

   public:
    static constexpr bool random_access = false;
    explicit Pass(const RunAhead& stage)
        : source_(stage.source.start()),
          ahead_({&source_, stage.size(), make, drop}, stage.threads, stage.depth, stage.skipped, stage.loc) {}
    Element* next() const { return static_cast<Element*>(ahead_.take()); }

   private:
    static void* make(const void* pass, std::int64_t index) {
      const PassOf<S>& source = *static_cast<const PassOf<S>*>(pass);
      Taken<Element> made(nullptr);
      if constexpr (Ends<PassOf<S>>)
        made.element = source.next();
      else
        made.element = new Element(source.at(index));
      if constexpr (can_flatten<Element>()) {  // what it is made of is computed by the thread too
        LeafList leaves;
        if (made) compute(flattened(*made.element, leaves), {});
      }
      return std::exchange(made.element, nullptr);
    }
    static void drop(void* element) { delete static_cast<Element*>(element); }
    PassOf<S> source_;
    Ahead ahead_;
  };
  std::int64_t size() const { return source.size(); }
  Pass start() const { return Pass(*this); }
};

// Those that its stages left out.
template <class S>
std::int64_t skipped_by(const S& stage) {
  std::int64_t count = 0;
  if constexpr (requires { stage.skipped; }) count += skipped(stage.skipped);
  if constexpr (requires { stage.source; }) count += skipped_by(stage.source);
  return count;
}

struct MoveTo {
  Device device;
  Loc loc;
  template <class Element>
  Element operator()(Element element) const {
    static_assert(can_flatten<Element>(), "weft: to(device) moves tensors, and structs and tuples of them");
    LeafList leaves;
    move_to(flattened(element, leaves), device, loc);
    return element;
  }
};

}  // namespace weft::data::detail
