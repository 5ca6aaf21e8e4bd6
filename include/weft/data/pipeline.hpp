// Pipelines of data: from samples to batches on their device, ahead of the loop that uses them.
//   auto train = data::fashion_mnist(data::Split::train) | data::shuffle(rng) | data::batch(64) | data::prefetch(2);
//   for (auto [x, y] : train) step(model, opt, x, y);   // iterating again shuffles anew
// A source is a tensor, or a struct or tuple of tensors, whose rows are the elements; a pipeline; or anything with
// size() and operator[](i), which workers call at the same time: a vector of samples, an ImageFolder. A source of the
// last kind that has a name is referred to, not copied, and must outlive the pipeline.
// An element is a function of its position and of what is drawn when a pass begins, so neither the order nor random
// augmentation depends on the number of threads. A pass begins with begin(), on the caller's thread; its threads end
// with its last iterator, also where a loop is left early. What a worker throws is thrown to the loop at the element's
// place. A pipeline is an input range: std::ranges and range-v3 take it.
#pragma once
#include <vector>

#include "weft/flatten.hpp"
#include "weft/random.hpp"

namespace weft::data {

namespace detail {

using weft::detail::LeafList;
using weft::detail::TypeDescription;
using weft::detail::TypeKind;

// ---- the compiled part ----------------------------------------------------------------------------------------------

[[noreturn]] void refuse_source(Loc loc);  // without elements
void check_at_least(const char* operation, const char* what, std::int64_t least, std::int64_t value, Loc loc);
void check_outside_trace(Loc loc);
// Of tensors on the host whose first axes are equally long: that length. Throws on others. Computes them.
std::int64_t count_rows(LeafList& leaves, Loc loc);
// Each tensor becomes these of its rows; `one`: the only one, without the first axis.
void take_rows(LeafList& leaves, std::span<const std::int64_t> rows, bool one, Loc loc);
// The tensors of the first of `count` lists become those of all, stacked. Throws where elements differ in anything
// else.
void stack_leaves(const TypeDescription& description, LeafList* lists, std::size_t count, Loc loc);
void compute(LeafList& leaves, Loc loc);
void move_to(LeafList& leaves, Device device, Loc loc);
Generator generator_of_pass(Generator& generator, Loc loc);
Generator generator_of_element(const Generator& of_pass, std::int64_t index, Loc loc);

// Elements that threads of its own make, in order: at most `depth` are made or in the making beyond the one that was
// taken last.
class Ahead {
 public:
  struct Source {
    const void* pass;
    std::int64_t count;
    void* (*make)(const void* pass, std::int64_t index);  // called at the same time where there are several threads
    void (*drop)(void* element);
  };
  Ahead(const Source& source, int threads, int depth, Loc loc);
  ~Ahead();  // waits for its threads, which finish the element that they are at
  Ahead(const Ahead&) = delete;
  void* take() const;  // the next element; throws what its making threw

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
// A stage has size(), the number of elements of each of its passes, and start(), which begins one. A pass has at(i),
// which several threads may call where it is random_access; else it is called for 0, 1, 2, ... by one thread. Where it
// can copy many rows at once it has gather(indices).

template <class Stage>
using PassOf = decltype(std::declval<const Stage&>().start());
template <class Stage>
using ElementOf = decltype(std::declval<const PassOf<Stage>&>().at(0));
template <class Stage>
inline constexpr bool random_access = PassOf<Stage>::random_access;
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
  const R* items;
  struct Pass {
    static constexpr bool random_access = true;
    const R* items;
    std::remove_cvref_t<decltype(std::declval<const R&>()[0])> at(std::int64_t i) const {
      return (*items)[static_cast<std::size_t>(i)];
    }
  };
  std::int64_t size() const { return static_cast<std::int64_t>(items->size()); }
  Pass start() const { return {items}; }
};
template <class R>
struct OwnItems {
  R items;
  std::int64_t size() const { return static_cast<std::int64_t>(items.size()); }
  auto start() const { return typename Items<R>::Pass{&items}; }
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
    std::int64_t first;
    auto at(std::int64_t i) const { return source.at(first + i); }
    auto gather(std::span<const std::int64_t> rows) const requires Gathers<PassOf<S>> {
      std::vector<std::int64_t> there;
      for (std::int64_t row : rows) there.push_back(first + row);
      return source.gather(there);
    }
  };
  std::int64_t size() const { return count; }
  Pass start() const { return {source.start(), first}; }
};

template <class S, class F>
struct Map {
  S source;
  F f;

  struct Pass {
    static constexpr bool random_access = data::detail::random_access<S>;
    PassOf<S> source;
    const F* f;
    auto at(std::int64_t i) const { return (*f)(source.at(i)); }
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
    auto at(std::int64_t i) const {
      Generator own = generator_of_element(generator, i, loc);
      return (*f)(source.at(i), own);
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

template <class S>
struct Batched {
  S source;
  std::int64_t rows;
  bool drop_last;
  Loc loc;

  struct Pass {
    static constexpr bool random_access = data::detail::random_access<S>;
    PassOf<S> source;
    std::int64_t rows, total;
    Loc loc;
    auto at(std::int64_t i) const {
      const std::int64_t first = i * rows, count = first + rows > total ? total - first : rows;
      if constexpr (Gathers<PassOf<S>>) {
        std::vector<std::int64_t> there(static_cast<std::size_t>(count));
        for (std::int64_t k = 0; k < count; ++k) there[static_cast<std::size_t>(k)] = first + k;
        return source.gather(there);
      } else {
        using Element = decltype(as_tensors(source.at(0)));
        static_assert(can_flatten<Element>(),
                      "weft: batch stacks tensors, numbers, and structs and tuples of them: map the elements to such");
        std::vector<Element> elements;
        for (std::int64_t k = 0; k < count; ++k) elements.push_back(as_tensors(source.at(first + k)));
        if constexpr (weft::detail::type_kind<Element>() == TypeKind::text || !can_flatten<Element>()) {
          return elements;
        } else {
          std::vector<LeafList> lists(elements.size());
          for (std::size_t k = 0; k < elements.size(); ++k) weft::detail::flatten(elements[k], lists[k]);
          stack_leaves(weft::detail::Description<Element>::value, lists.data(), lists.size(), loc);
          return Element(std::move(elements[0]));
        }
      }
    }
  };
  std::int64_t size() const { return (source.size() + (drop_last ? 0 : rows - 1)) / rows; }
  Pass start() const { return {source.start(), rows, source.size(), loc}; }
};

template <class S>
struct RunAhead {
  S source;
  int threads, depth;
  Loc loc;

  class Pass {
    using Element = ElementOf<S>;

   public:
    static constexpr bool random_access = false;
    explicit Pass(const RunAhead& stage)
        : source_(stage.source.start()),
          ahead_({&source_, stage.size(), make, drop}, stage.threads, stage.depth, stage.loc) {}
    Element at(std::int64_t) const {
      Element* element = static_cast<Element*>(ahead_.take());
      Element result = std::move(*element);
      delete element;
      return result;
    }

   private:
    static void* make(const void* pass, std::int64_t index) {
      Element element = static_cast<const PassOf<S>*>(pass)->at(index);
      if constexpr (can_flatten<Element>()) {  // what it is made of is computed by the thread too
        LeafList leaves;
        compute(flattened(element, leaves), {});
      }
      return new Element(std::move(element));
    }
    static void drop(void* element) { delete static_cast<Element*>(element); }
    PassOf<S> source_;
    Ahead ahead_;
  };
  std::int64_t size() const { return source.size(); }
  Pass start() const { return Pass(*this); }
};

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

}  // namespace detail

// ---- what the user sees ---------------------------------------------------------------------------------------------

template <class Stage>
class Pipeline {
 public:
  Pipeline(Stage stage, Loc loc) : stage_(std::move(stage)), loc_(loc) {}

  std::int64_t size() const { return stage_.size(); }  // elements of a pass

  struct End {};
  // An input iterator: copies share one position.
  class Iterator {
   public:
    using value_type = detail::ElementOf<Stage>;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;
    Iterator(const Iterator& other) noexcept : pass_(other.pass_) {
      if (pass_) ++pass_->references;
    }
    Iterator(Iterator&& other) noexcept : pass_(std::exchange(other.pass_, nullptr)) {}
    Iterator& operator=(Iterator other) noexcept {
      std::swap(pass_, other.pass_);
      return *this;
    }
    ~Iterator() {
      if (pass_ && --pass_->references == 0) delete pass_;
    }

    // Made when it is asked for first; a reference until the iterator moves on.
    value_type& operator*() const {
      if (!pass_->element) pass_->element = new value_type(pass_->pass.at(pass_->position));
      return *pass_->element;
    }
    Iterator& operator++() {
      **this;  // a pass hands out its elements in order
      pass_->drop();
      ++pass_->position;
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(End) const { return pass_->position >= pass_->count; }

   private:
    friend class Pipeline;
    struct Shared {
      explicit Shared(const Stage& stage) : pass(stage.start()), count(stage.size()) {}
      ~Shared() { drop(); }
      void drop() { delete std::exchange(element, nullptr); }
      detail::PassOf<Stage> pass;
      std::int64_t count, position = 0;
      value_type* element = nullptr;
      long references = 1;
    };
    explicit Iterator(Shared* pass) : pass_(pass) {}
    Shared* pass_ = nullptr;
  };
  // Begins a pass: draws its order, and starts its threads.
  Iterator begin() const {
    detail::check_outside_trace(loc_);
    return Iterator(new typename Iterator::Shared(stage_));
  }
  End end() const { return {}; }

  const Stage& stage() const { return stage_; }

 private:
  Stage stage_;
  Loc loc_;
};

namespace detail {

template <class T>
inline constexpr bool is_pipeline = false;
template <class S>
inline constexpr bool is_pipeline<Pipeline<S>> = true;
template <class T>
concept Indexed = !std::is_same_v<T, Tensor> && requires(const T& source, std::size_t i) {
  source[i];
  source.size();
};

template <class T>
auto stage_of(T&& source, Loc loc) {
  using Source = std::remove_cvref_t<T>;
  if constexpr (is_pipeline<Source>) {
    return source.stage();
  } else if constexpr (Indexed<Source>) {
    if (source.size() == 0) refuse_source(loc);
    if constexpr (std::is_lvalue_reference_v<T>)
      return Items<Source>{&source};
    else
      return OwnItems<Source>{std::move(source)};
  } else if constexpr (!can_flatten<Source>()) {
    static_assert(can_flatten<Source>(),
                  "weft: a pipeline begins with tensors, a struct or tuple of them, or what has size() and operator[]");
    return Rows<Tensor>();  // so that what follows is no further error
  } else {
    Source copy = source;
    LeafList leaves;
    const std::int64_t count = count_rows(flattened(copy, leaves), loc);
    return Rows<Source>{std::move(copy), count, loc};
  }
}

// What stands behind a |: makes a stage of the one before it.
template <class Make>
struct Adaptor {
  Make make;
  Loc loc;
};
template <class Make>
Adaptor<Make> adaptor(Make make, Loc loc) {
  return {std::move(make), loc};
}
template <class T, class Make>
auto operator|(T&& source, const Adaptor<Make>& adaptor) {
  auto stage = adaptor.make(stage_of(static_cast<T&&>(source), adaptor.loc));
  return Pipeline<decltype(stage)>(std::move(stage), adaptor.loc);
}

}  // namespace detail

// In another order each pass, drawn from the generator, which must outlive the pipeline. Before prefetch.
inline auto shuffle(Generator& generator = default_generator(), Loc loc = Loc::current()) {
  return detail::adaptor(
      [&generator, loc]<class S>(S source) {
        static_assert(detail::random_access<S>, "weft: shuffle must stand before prefetch and before workers");
        return detail::Shuffle<S>{std::move(source), &generator, loc};
      },
      loc);
}

struct BatchOptions {
  bool drop_last = false;  // whether rows that do not fill a batch are left out; else the last batch is smaller
};
// `size` elements as one: tensors are stacked along a new first axis, in structs and tuples place by place, and numbers
// in tuples become tensors; texts become a vector. Throws Error where size < 1, and for elements whose shapes or dtypes
// differ, with their place.
inline auto batch(std::int64_t size, BatchOptions options = {}, Loc loc = Loc::current()) {
  detail::check_at_least("batch", "the size of a batch", 1, size, loc);
  return detail::adaptor(
      [size, options, loc]<class S>(S source) {
        return detail::Batched<S>{std::move(source), size, options.drop_last, loc};
      },
      loc);
}

// f(element) for each, when it is asked for.
template <class F>
auto map(F f, Loc loc = Loc::current()) {
  return detail::adaptor([f]<class S>(S source) { return detail::Map<S, F>{std::move(source), f}; }, loc);
}
struct MapOptions {
  int workers;    // threads
  int ahead = 0;  // elements that may be ready before they are asked for, at least one a thread; 0: two a thread
};
// The same by threads, which call f at the same time, ahead of who asks; the order stays.
template <class F>
auto map(F f, MapOptions options, Loc loc = Loc::current()) {
  detail::check_at_least("map", "workers", 1, options.workers, loc);
  detail::check_at_least("map", "ahead", 0, options.ahead, loc);
  return detail::adaptor(
      [f, options, loc]<class S>(S source) {
        static_assert(detail::random_access<S>, "weft: map with workers must stand before prefetch and other workers");
        return detail::RunAhead<detail::Map<S, F>>{
            {std::move(source), f}, options.workers, options.ahead ? options.ahead : 2 * options.workers, loc};
      },
      loc);
}

// f(element, generator) for each, with a generator of the element's own, which depends on the pass and the position
// alone. `generator` must outlive the pipeline.
template <class F>
auto augment(F f, Generator& generator = default_generator(), Loc loc = Loc::current()) {
  return detail::adaptor(
      [f, &generator, loc]<class S>(S source) {
        return detail::Augment<S, F>{std::move(source), f, &generator, loc};
      },
      loc);
}

// The first `count` elements; all but the first `count`. After shuffle and batch, drop(k) goes on where a pass of the
// same generator was left after k batches.
inline auto take(std::int64_t count, Loc loc = Loc::current()) {
  detail::check_at_least("take", "the count", 0, count, loc);
  return detail::adaptor(
      [count]<class S>(S source) {
        const std::int64_t size = source.size();
        return detail::Part<S>{std::move(source), 0, count < size ? count : size};
      },
      loc);
}
inline auto drop(std::int64_t count, Loc loc = Loc::current()) {
  detail::check_at_least("drop", "the count", 0, count, loc);
  return detail::adaptor(
      [count]<class S>(S source) {
        static_assert(detail::random_access<S>, "weft: drop must stand before prefetch and before workers");
        const std::int64_t size = source.size(), first = count < size ? count : size;
        return detail::Part<S>{std::move(source), first, size - first};
      },
      loc);
}

// Copies each element to a device. Before prefetch its thread does it, ahead of the loop. The memory is not pinned.
inline auto to(Device device, Loc loc = Loc::current()) {
  return detail::adaptor(
      [device, loc]<class S>(S source) {
        return detail::Map<S, detail::MoveTo>{std::move(source), {device, loc}};
      },
      loc);
}

// A thread of its own makes what stands before it, up to `count` elements ahead.
inline auto prefetch(int count, Loc loc = Loc::current()) {
  detail::check_at_least("prefetch", "the count", 1, count, loc);
  return detail::adaptor(
      [count, loc]<class S>(S source) {
        return detail::RunAhead<S>{std::move(source), 1, count, loc};
      },
      loc);
}

}  // namespace weft::data
