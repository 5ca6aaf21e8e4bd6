// Effects: what a function does besides computing. print and host_call are operations of the graph: in a compiled
// function they happen in every call, once, in the order in which they were recorded, though the function's code does
// not run again. No pass merges, moves or drops them. disable() marks a part of a compiled function that runs as plain
// C++ in every call.
#pragma once
#include <concepts>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/flatten.hpp"
#include "weft/ops.hpp"

namespace weft {

// The type of a result that host_call gives: ResultType{{n, 3}, DType::i64}. Sizes may be symbolic, as those of
// x.shape() in a compiled function are.
struct ResultType {
  Sizes shape = {};          // of no axes: one element
  DType dtype = DType::f32;  // as every other dtype, what fn must give: nothing is cast
};

namespace detail {

using HostTensors = std::span<const Tensor>;

// A function with what calls it: `function` is null where the callable has no state, and `call` knows its type.
struct HostCallable {
  void (*function)() = nullptr;
  std::vector<Tensor> (*call)(void (*function)(), HostTensors operands) = nullptr;
  std::uint32_t takes = 0;  // bit n: it can be called with n tensors
  bool operator==(const HostCallable&) const = default;
};

inline constexpr std::size_t most_host_operands = 8;  // of a callable that takes them one by one

template <class F, std::size_t... I>
constexpr bool takes_tensors(std::index_sequence<I...>) {
  return std::is_invocable_v<F&, decltype((void(I), std::declval<const Tensor&>()))...>;
}
template <class F, std::size_t count>
inline constexpr bool takes_count = takes_tensors<F>(std::make_index_sequence<count>());
template <class F, std::size_t... N>
constexpr std::uint32_t tensors_taken(std::index_sequence<N...>) {
  return ((takes_count<F, N> ? std::uint32_t{1} << N : 0u) | ...);
}
template <class F>
inline constexpr std::uint32_t taken_by = tensors_taken<F>(std::make_index_sequence<most_host_operands + 1>());

template <class Call>
std::vector<Tensor> host_results(Call call) {
  using Result = std::remove_cvref_t<decltype(call())>;
  if constexpr (std::is_void_v<Result>) {
    call();
    return {};
  } else if constexpr (std::is_convertible_v<Result, std::vector<Tensor>>) {
    return call();
  } else {
    static_assert(std::is_convertible_v<Result, Tensor>,
                  "weft: what host_call calls returns nothing, a Tensor, or a std::vector<Tensor>");
    std::vector<Tensor> results;
    if constexpr (std::is_convertible_v<Result, Tensor>) results.push_back(call());
    return results;
  }
}
template <class F, std::size_t... I>
std::vector<Tensor> call_with(F& f, HostTensors x, std::index_sequence<I...>) {
  return host_results([&]() -> decltype(auto) { return f(x[I]...); });
}
template <class F, std::size_t count>
void call_with_count(F& f, HostTensors x, std::vector<Tensor>& results) {
  if constexpr (takes_count<F, count>)
    if (x.size() == count) results = call_with(f, x, std::make_index_sequence<count>());
}
template <class F, std::size_t... N>
std::vector<Tensor> call_with_any(F& f, HostTensors x, std::index_sequence<N...>) {
  std::vector<Tensor> results;
  (call_with_count<F, N>(f, x, results), ...);
  return results;
}

template <class F>
HostCallable host_callable(F f) {
  constexpr bool one_by_one = taken_by<F> != 0, together = std::is_invocable_v<F&, HostTensors>;
  constexpr bool is_pointer = std::is_pointer_v<F> && std::is_function_v<std::remove_pointer_t<F>>;
  constexpr bool stateless = std::is_empty_v<F> && std::is_default_constructible_v<F>;
  static_assert(is_pointer || stateless,
                "weft: host_call calls a lambda that captures nothing, or a function: a graph outlives what a lambda "
                "captures. Pass tensors and numbers as operands; what the whole program shares can be a global");
  static_assert(one_by_one || together,
                "weft: what host_call calls takes up to 8 const Tensor&, or one std::span<const Tensor>");
  HostCallable made;
  if constexpr ((is_pointer || stateless) && (one_by_one || together)) {
    if constexpr (is_pointer) made.function = reinterpret_cast<void (*)()>(f);
    made.takes = one_by_one ? taken_by<F> : UINT32_MAX;
    made.call = [](void (*function)(), HostTensors operands) {
      const auto call = [&](F each) {
        if constexpr (one_by_one)
          return call_with_any(each, operands, std::make_index_sequence<most_host_operands + 1>());
        else
          return host_results([&]() -> decltype(auto) { return each(operands); });
      };
      if constexpr (is_pointer)
        return call(reinterpret_cast<F>(function));
      else
        return call(F());
    };
  }
  return made;
}

}  // namespace detail

// What host_call calls: a lambda that captures nothing, or a function, that takes const Tensor&, one for each operand,
// or a std::span<const Tensor>. It returns nothing, a Tensor, or a std::vector<Tensor>.
class HostFunction {
 public:
  // By value. A callable that captures is refused with a sentence.
  template <class F>
  requires(!std::is_convertible_v<F, At> && !std::is_convertible_v<F, std::vector<ResultType>> &&
           !std::is_same_v<F, ResultType> && !std::is_same_v<F, HostFunction>)
      HostFunction(F f, Loc loc = Loc::current())
      : call_(detail::host_callable(f)), loc_(loc) {}

  // The same with a derivative, a callable as the function is: it is given the operands, the results and the gradients
  // of the results, in this order, and returns the gradients of the operands: one each, of its operand's shape and
  // dtype; what is no floating tensor needs none, an undefined Tensor(). It is recorded, as any part of the program:
  // it may use operations and host_call, and is differentiable again.
  template <class D>
  HostFunction with_derivative(D derivative) const {
    HostFunction result = *this;
    result.derivative_ = detail::host_callable(derivative);
    return result;
  }

  const detail::HostCallable& call() const { return call_; }              // what is called
  const detail::HostCallable& derivative() const { return derivative_; }  // its `call` is null where none was given
  Loc loc() const { return loc_; }                                        // where the HostFunction was made

 private:
  detail::HostCallable call_, derivative_;
  Loc loc_;
};

// The text of print, with the place of the call. {} stands for the next operand, {{ and }} for braces.
class PrintText {
 public:
  // A literal or a std::string, which is copied.
  template <std::convertible_to<std::string> Text>
  PrintText(const Text& text, Loc loc = Loc::current()) : text_(text), loc_(loc) {}
  const std::string& text() const { return text_; }  // as it was given
  Loc loc() const { return loc_; }                   // of the call

 private:
  std::string text_;
  Loc loc_;
};

namespace detail {
std::vector<Tensor> host_call(const HostFunction& function, std::span<const ResultType> results,
                              std::span<const At> operands);
void print(const PrintText& text, std::span<const At> operands);
template <class... A>
std::vector<At> operands_at(Loc loc, const A&... operands) {
  static_assert((std::is_constructible_v<At, const A&, Loc> && ...),
                "weft: print and host_call take tensors and numbers; text is written into the function");
  std::vector<At> all;
  if constexpr ((std::is_constructible_v<At, const A&, Loc> && ...)) all = {At(operands, loc)...};
  return all;
}
}  // namespace detail

// Calls fn(operands...) with the values of the operands, tensors of the host: at once outside of compile(), and in a
// compiled function in each of its calls, once, in program order with every other print and host_call. Operands are
// tensors of any dtype and device, and numbers, which fn is given as tensors of no axes. On a device the call waits
// until the operands are computed, and copies them. fn keeps its tensors as long as it likes: they are copies.
// fn may use Weft, compiled functions too. It throws Error where it draws from the default generator in a function that
// does, and must not wait for another thread that traces the same function.
// An exception of fn ends the call, and state stays as it was; what other effects did before remains done.
// fn is a part of what is compiled: captures are refused at compile time, and what a global holds is read by fn in
// each call. Throws Error where fn takes another number of tensors than there are operands.
template <class... A>
void host_call(const HostFunction& fn, const A&... operands) {
  detail::host_call(fn, {}, detail::operands_at(fn.loc(), operands...));
}

// The same of a function that gives a tensor of this type. Throws Error where it gave another shape or dtype, and where
// the result is differentiated with respect to an operand and fn has no derivative.
template <class... A>
Tensor host_call(const ResultType& result, const HostFunction& fn, const A&... operands) {
  return detail::host_call(fn, {&result, 1}, detail::operands_at(fn.loc(), operands...))[0];
}

// The same of several results: fn returns a std::vector<Tensor>.
template <class... A>
std::vector<Tensor> host_call(const std::vector<ResultType>& results, const HostFunction& fn, const A&... operands) {
  return detail::host_call(fn, results, detail::operands_at(fn.loc(), operands...));
}

// The type of x, for a result that is like it.
inline ResultType like(const Tensor& x, Loc loc = Loc::current()) { return {x.shape(loc), x.dtype(loc)}; }

// Writes the text and a newline to std::cout, with the values of the operands in the places of {}: numbers of one
// element as they are, other tensors as `std::cout << x` shows them, without their type. When and how often: as
// host_call says. Throws Error where there are more or fewer {} than operands, or a brace is left alone.
template <class... A>
void print(const PrintText& text, const A&... operands) {
  detail::print(text, detail::operands_at(text.loc(), operands...));
}
// Refused with a sentence: an operand in the place of the text. The comment is a part of what the compiler says.
template <std::convertible_to<At> T, class... A>
void print(const T&, const A&...) = delete;  // weft: the text comes first: print("{}", x)

// ---- parts of a compiled function that are not compiled ------------------------------------------------------------

namespace detail {

// A call of a disabled function, from its arguments to its results. Outside of compile() it does nothing.
class DisabledCall {
 public:
  explicit DisabledCall(Loc loc);
  ~DisabledCall();
  DisabledCall(const DisabledCall&) = delete;
  // Puts the values of the arguments in their places, and leaves the trace.
  void leave(const LeafList& arguments);
  // Goes back to the trace, once.
  void come_back();
  // Puts values of the trace in the places of those outside of it; of the arguments alone where the function threw.
  void bring_back(const LeafList& leaves, bool threw);

  struct State;

 private:
  State* state_;  // null outside of a trace
};

// An argument that the function gets by const reference is copied: its tensors are replaced while the function runs.
template <class A>
inline constexpr bool is_copied = std::is_const_v<std::remove_reference_t<A>>&& Flattenable<std::remove_cvref_t<A>>&&
copyable<std::remove_cvref_t<A>>();
template <class A>
decltype(auto) own(std::remove_reference_t<A>& argument) {
  if constexpr (is_copied<A>)
    return std::remove_cvref_t<A>(argument);
  else
    return static_cast<A&&>(argument);
}
template <class... A>
void flatten_arguments(LeafList& leaves, A&... arguments) {
  [[maybe_unused]] const auto add = [&](auto& each) {
    using T = std::remove_cvref_t<decltype(each)>;
    if constexpr (Flattenable<T>) flatten(const_cast<T&>(each), leaves);
  };
  (add(arguments), ...);
}

template <class F>
class Disabled {
 public:
  Disabled(F f, Loc loc) : f_(std::move(f)), loc_(loc) {}

  template <class... A>
  auto operator()(A&&... arguments) const {
    static_assert(std::is_invocable_v<const F&, A...>, "weft: disable(f)(arguments...) calls f(arguments...)");
    if constexpr (std::is_invocable_v<const F&, A...>) return run(own<A>(arguments)...);
  }

 private:
  template <class... A>
  auto run(A&&... arguments) const {
    using Result = std::remove_cvref_t<std::invoke_result_t<const F&, A...>>;
    DisabledCall call(loc_);
    // Also where the function throws: the tensors of its arguments are the trace's again.
    const auto come_back = [&](bool threw) {
      call.come_back();
      LeafList now;
      flatten_arguments(now, arguments...);
      call.bring_back(now, threw);
    };
    try {
      LeafList given;
      flatten_arguments(given, arguments...);
      call.leave(given);
      if constexpr (std::is_void_v<Result>) {
        f_(std::forward<A>(arguments)...);
        come_back(false);
      } else {
        static_assert(Flattenable<Result>,
                      "weft: disable(f): what f returns is nothing, or tensors, numbers, text, and structs, tuples and "
                      "containers of them");
        Result result = f_(std::forward<A>(arguments)...);
        come_back(false);
        LeafList results;
        flatten(result, results);
        call.bring_back(results, false);
        return result;
      }
    } catch (...) {
      come_back(true);
      throw;
    }
  }

  F f_;
  Loc loc_;
};

}  // namespace detail

// A callable that runs f as plain C++, also in a compiled function: there it is a border, up to which what was recorded
// is compiled and run; f gets the values, and what it returns, or writes to arguments that it takes by reference,
// enters what follows as inputs. The compiled function is resumable then (docs/guards.md, "Values on the host"): each
// call runs its code. Results of other shapes than before are compiled for. Gradients of any order go through what f
// records; derivatives run as plain C++ too. In f, compiled functions are called as anywhere else. Throws Error in the
// body of a loop (scan, fori, while_loop, cond), and in a function compiled with {.fullgraph = true}.
template <class F>
auto disable(F f, Loc loc = Loc::current()) {
  return detail::Disabled<F>(std::move(f), loc);
}

}  // namespace weft
