// minimize(f, args...): the smallest part of a compiled function that is wrong, found by leaving out what is not
// needed. verify(f, args...) says whether a function is; this says where. Kernels against the reference interpreter in
// float64, which shares no code with them.
//   std::cout << minimize(step, model, x, y);
#pragma once
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "weft/compile.hpp"
#include "weft/verify.hpp"

namespace weft {

// What minimize() found.
struct Minimization {
  std::string symptom;  // how the small graph's values differ, or what is thrown; empty: nothing is wrong
  // The first stage of the compilation, as explain(f, args...).passes has them, whose graph gives other values or that
  // throws. "kernels": every pass keeps the values, and the kernels or the order of steps do not.
  std::string stage;
  std::string graph;                               // the small graph, as text
  std::vector<Tensor> inputs;                      // its inputs
  std::string program;                             // C++ that runs it and prints the symptom; it needs Weft alone
  std::size_t operations = 0;                      // of the small graph
  std::size_t operations_all = 0;                  // of all that was looked at
  bool found() const { return !symptom.empty(); }  // whether anything is wrong
};
std::string to_string(const Minimization& minimization);                        // all of it, as a text
std::ostream& operator<<(std::ostream& out, const Minimization& minimization);  // the same

// Compiles and runs a graph that is given as text, and says how its values differ from the reference's, with the stage
// that is the first to be wrong; empty where they do not. Of the options it takes level and region. What the program of
// a Minimization calls. Throws Error where the text is no graph, and where the inputs are not its own.
std::string check_graph(std::string_view graph, const std::vector<Tensor>& inputs, const CompileOptions& options = {},
                        Loc loc = Loc::current());

namespace detail {

// A function that keeps each graph that its calls run, with what it ran on.
class GraphKeeper {
 public:
  explicit GraphKeeper(const Function* like);
  ~GraphKeeper();
  GraphKeeper(const GraphKeeper&) = delete;
  const FunctionHandle& function() const;
  Minimization minimize() const;

 private:
  struct State;
  State* state_;
};

template <class R, class... P, class F, class... A>
Minimization minimize(const F& f, const FunctionHandle& function, A&... argument) {
  static_assert((cloneable<Value<P>>() && ... && true), "weft: minimize() copies the arguments: they must be copyable");
  const std::tuple<Value<P>...> arguments(clone(static_cast<const Value<P>&>(argument))...);
  const Tensor drawn = generator_state();
  const GraphKeeper keeper(function.get());
  const VerifiedCall<R, P...> run([&](P... given) -> R { return call<R, P...>(keeper.function(), f, Loc(), given...); },
                                  arguments);
  set_generator_state(drawn);
  return keeper.minimize();
}

}  // namespace detail

// Looks for what is wrong in what f is compiled to for these arguments: in the graph, or, of a function that reads
// values, in each of its pieces. It compiles many small graphs, so it takes from seconds to minutes. The arguments and
// the default generator stay as they are; effects (print, host_call) of f happen, those of the small graphs do not:
// they are left out, and a piece that a host_call gives values to is not looked at. Throws as a call does.
template <class F, class R, class... T, class... First, class... P, class... A>
Minimization minimize(const Compiled<F, R, Bound<T...>, detail::TypeList<First...>, detail::TypeList<P...>>& f,
                      const A&... argument) {
  return f.bound().apply(
      [&](T&... bound) { return detail::minimize<R, First..., P...>(f.plain(), f.function(), bound..., argument...); });
}
// Of a generic callable: the arguments' types are the call's. An lvalue that is not const is state.
template <class F, class... T, class... A>
Minimization minimize(const Compiled<F, void, Bound<T...>, void, void>& f, A&&... argument) {
  return f.bound().apply([&](T&... bound) {
    using R =
        std::remove_cvref_t<decltype(std::declval<F&>()(bound..., std::declval<detail::VerifiedArgument<A>>()...))>;
    return detail::minimize<R, T&..., detail::VerifiedArgument<A>...>(f.plain(), f.function(), bound..., argument...);
  });
}

}  // namespace weft
