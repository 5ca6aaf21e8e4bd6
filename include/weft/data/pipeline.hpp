// Pipelines of data: from samples to batches on their device, ahead of the loop that uses them.
//   auto train = data::fashion_mnist(data::Split::train) | data::shuffle(rng) | data::batch(64) | data::prefetch(2);
//   for (auto [x, y] : train) step(model, opt, x, y);   // iterating again shuffles anew
// A source is a tensor, or a struct or tuple of tensors, whose rows are the elements; a pipeline; or anything with
// size() and operator[](i), which workers call at the same time: a vector of samples, an ImageFolder. A pipeline owns
// its source, so that a function may return it: a source of the last kind is moved in, or copied once where it has a
// name (copies of a pipeline share it). std::ref(source) is referred to instead and must outlive the pipeline.
// An element is a function of its position and of what is drawn when a pass begins, so neither the order nor random
// augmentation depends on the number of threads. A pass begins with begin(), on the caller's thread; its threads end
// with its last iterator, also where a loop is left early. What a worker throws is thrown to the loop at the element's
// place, where the pass ends: who asks again gets the same error. Threads may leave bad samples out instead:
//   auto train = folder | data::shuffle(rng) | data::map(decode, {.workers = 4, .skip_bad = true}) | data::batch(64);
//   for (auto [x, y] : train) ...;   // train.skipped() counts them
// A pipeline is an input range: std::ranges and range-v3 take it.
#pragma once
#include "weft/detail/data_stages.hpp"

namespace weft::data {

template <class Stage>
class Pipeline {  // a sequence of samples, made anew by each loop over it
 public:
  // What `|` makes; errors of a pass name `loc`.
  Pipeline(Stage stage, Loc loc) : stage_(std::move(stage)), loc_(loc) {}

  std::int64_t size() const { return stage_.size(); }  // elements of a pass; the most, where bad samples are skipped
  // How many elements were left out for {.skip_bad = true} since the last begin() of this pipeline or of a copy, as far
  // as the loop and the threads before it have come: exact when the loop has ended.
  std::int64_t skipped() const { return detail::skipped_by(stage_); }

  struct End {};  // after the last element
  // An input iterator: copies share one position.
  class Iterator {
   public:
    using value_type = detail::ElementOf<Stage>;  // what a loop gets: a tensor, a struct or tuple of some, ...
    using difference_type = std::ptrdiff_t;       // as std::ranges wants it

    Iterator() = default;
    // Shares the position of the other.
    Iterator(const Iterator& other) noexcept : pass_(other.pass_) {
      if (pass_) ++pass_->references;
    }
    // The other one is of no pass then.
    Iterator(Iterator&& other) noexcept : pass_(std::exchange(other.pass_, nullptr)) {}
    // Shares the position of the other, or takes it over.
    Iterator& operator=(Iterator other) noexcept {
      std::swap(pass_, other.pass_);
      return *this;
    }

    ~Iterator() {
      if (pass_ && --pass_->references == 0) delete pass_;
    }

    // Made when it is asked for first; a reference until the iterator moves on.
    value_type& operator*() const {
      pass_->make();
      return *pass_->element;
    }
    // Moves on to the next element, also where this one was not asked for; that is made and dropped then.
    Iterator& operator++() {
      pass_->make();  // a pass hands out its elements in order
      pass_->drop();
      ++pass_->position;
      return *this;
    }
    void operator++(int) { ++*this; }                        // the same
    bool operator==(End) const { return pass_->is_over(); }  // whether no element is left

   private:
    friend class Pipeline;
    struct Shared {
      explicit Shared(const Stage& stage) : pass(stage.start()), count(stage.size()) {}
      ~Shared() { drop(); }
      void drop() { delete std::exchange(element, nullptr); }
      void make() {
        if (element) return;
        if constexpr (detail::Ends<detail::PassOf<Stage>>)
          element = next();
        else
          element = new value_type(pass.at(position));
      }
      bool is_over() {
        if constexpr (detail::Ends<detail::PassOf<Stage>>) {  // known when the next one is there
          if (!element) element = next();
          return !element;
        } else {
          return position >= count;
        }
      }
      value_type* next() requires detail::Ends<detail::PassOf<Stage>> {
        if (failed) std::rethrow_exception(failed);
        try {
          return pass.next();
        } catch (...) {
          failed = std::current_exception();
          throw;
        }
      }
      detail::PassOf<Stage> pass;
      std::int64_t count, position = 0;
      value_type* element = nullptr;
      std::exception_ptr failed;  // where a pass ends with an error
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
  End end() const { return {}; }  // what an iterator past the last element equals

  // What makes the elements.
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

// A std::reference_wrapper, without its header.
template <class T>
concept Refers = requires(const T& reference, typename T::type& referred) {
  T(referred);
  { reference.get() } -> std::same_as<typename T::type&>;
};

template <class T>
auto stage_of(T&& source, Loc loc) {
  using Source = std::remove_cvref_t<T>;
  if constexpr (is_pipeline<Source>) {
    return source.stage();
  } else if constexpr (Refers<Source>) {
    using Referred = std::remove_cv_t<typename Source::type>;
    if constexpr (Indexed<Referred>) {
      if (source.get().size() == 0) refuse_source(loc);
      return Items<Referred>{Shared(&source.get(), nullptr)};
    } else {
      return stage_of(source.get(), loc);
    }
  } else if constexpr (Indexed<Source>) {
    static_assert(std::is_constructible_v<Source, T>,
                  "weft: a source that can't be copied is moved into its pipeline, or given by std::ref(source)");
    if (source.size() == 0) refuse_source(loc);
    return Items<Source>{Shared(new Source(static_cast<T&&>(source)),
                                [](const void* object) { delete static_cast<const Source*>(object); })};
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

// The right side of a |: makes a stage of the one on the left.
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
        static_assert(detail::random_access<S>, "weft: shuffle must come before prefetch and before workers");
        return detail::Shuffle<S>{std::move(source), &generator, loc};
      },
      loc);
}

struct BatchOptions {      // of batch
  bool drop_last = false;  // whether rows that do not fill a batch are left out; else the last batch is smaller
};
// `size` elements as one: tensors are stacked along a new first axis, in structs, containers and tuples place by place.
// Numbers, alone and in tuples, become tensors, and texts a vector; inside a struct or a container, whose type has no
// room for that, they do not compile. Throws Error where size < 1, and for elements whose shapes, dtypes or lengths
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
struct MapOptions {  // of map
  int workers = 1;   // threads
  int ahead = 0;     // elements that may be ready before they are asked for, at least one a thread; 0: two a thread
  bool skip_bad = false;  // whether elements are left out and counted (Pipeline::skipped) whose making throws
};
// The same by threads, which call f at the same time, ahead of who asks; the order stays. With skip_bad, an element for
// which the source or f throws a std::exception is left out, but for a lack of memory; the first is warned of; a pass
// of which all are left out ends with an Error.
template <class F>
auto map(F f, MapOptions options, Loc loc = Loc::current()) {
  detail::check_count("map", "workers", 1, options.workers, loc);
  detail::check_count("map", "ahead", 0, options.ahead, loc);
  return detail::adaptor(
      [f, options, loc]<class S>(S source) {
        static_assert(detail::random_access<S>, "weft: map with workers must come before prefetch and other workers");
        return detail::RunAhead<detail::Map<S, F>>{
            {std::move(source), f},
            options.workers,
            options.ahead ? options.ahead : 2 * options.workers,
            options.skip_bad ? detail::count_skipped() : detail::Shared(nullptr, nullptr),
            loc};
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
        static_assert(detail::random_access<S>, "weft: drop must come before prefetch and before workers");
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

struct PrefetchOptions {  // of prefetch
  bool skip_bad = false;  // as in MapOptions; of what is batched before, whole batches
};
// A thread of its own runs the stages before it, up to `count` elements ahead. Throws Error where skip_bad is given
// after other threads: what they throw has ended their pass.
inline auto prefetch(int count, PrefetchOptions options = {}, Loc loc = Loc::current()) {
  detail::check_count("prefetch", "the count", 1, count, loc);
  return detail::adaptor(
      [count, options, loc]<class S>(S source) {
        if (options.skip_bad && !detail::random_access<S>) detail::refuse_skipping(loc);
        return detail::RunAhead<S>{std::move(source), 1, count,
                                   options.skip_bad ? detail::count_skipped() : detail::Shared(nullptr, nullptr), loc};
      },
      loc);
}

}  // namespace weft::data
