// Precompiling: the kernels of a program before it runs, from the types of its arguments.
//   const auto forward = compile(model);
//   const Tensor x = tensor_spec({{2, 1024}, 768}), y = tensor_spec({{2, 1024}}, DType::i64);
//   Precompiler all;
//   all.add(forward, x);                                                       // what inference calls
//   all.add([&](const Mlp& m, const Tensor& x, const Tensor& y) {              // what training calls: the forward call
//     return value_and_grad([&](const Mlp& m) { return loss(forward(m, x), y); }, m);   // that saves, and the backward
//   }, model, x, y);
//   std::cout << all.run().text();                                             // made by all processors
//   send(cache_bytes());                               // to other processes, which load_cache() them and compile
//   nothing
// In: compiled functions or programs that call them, and arguments, of which no value is read. Out: kernels and plans,
// in memory and in the cache, from where save_cache takes them; and what was made. Invariant: nothing is computed and
// no state is written. What is made does not depend on the number of threads, but where Level::O3 measures.
#pragma once
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/cache.hpp"
#include "weft/stance.hpp"

namespace weft {

// A size of a spec: a number, or a range. Ranges vary independently, but where the function needs equal ones (x + y).
struct SpecSize {
  SpecSize(std::int64_t size) : least(size), greatest(size), example(size) {}  // this number
  SpecSize(int size) : SpecSize(std::int64_t{size}) {}                         // this number
  // Symbolic, as mark_dynamic says: `least` of 0 or 1 serves such sizes too. Kernels are chosen for `example`, a size
  // of the range; 0: 64, or the end of the range that is nearest to it.
  SpecSize(std::int64_t least, std::int64_t greatest, std::int64_t example = 0);
  std::int64_t least, greatest, example;
};

// A tensor of this type that has no values, and takes no memory for any: an argument of precompile, warm_up, package
// and explain. What would read it throws Error. Throws Error where a size is negative or a range is empty.
Tensor tensor_spec(std::initializer_list<SpecSize> sizes, DType dtype = DType::f32, Device device = {},
                   Loc loc = Loc::current());

// How precompile() and a Precompiler compile.
struct PrecompileOptions {
  int threads = 0;  // that compile at once; 0: one a processor
};

// What one kind of arguments of a function became.
struct Precompiled {
  std::string function;      // "compile at model.cpp:12"
  std::string what;          // "forward: f32[s0,10]", with the types of its results; "saving forward", "derivative"
  double milliseconds = 0;   // of passes, schedule and compiler; 0 where it was there already
  std::string failure = {};  // why it has no kernels, a sentence; empty where it has
};
// What precompile() and a Precompiler have made.
struct PrecompileReport {
  std::vector<Precompiled> entries;  // in the order in which they were asked for
  bool ok() const;                   // whether nothing has failed
  std::string text() const;          // a line each
};

namespace detail {
struct PrecompileState;
// Runs `program` without computing; what it throws becomes an entry of the report, of this title.
void add_dry_run(PrecompileState& state, const std::string& title, void (*program)(void* context), void* context);
std::string title_of(const Function* function);
template <class T>
decltype(auto) copy_for_dry_run(T& value) {
  if constexpr (Flattenable<std::remove_const_t<T>>) {
    if constexpr (cloneable<std::remove_const_t<T>>())
      return std::remove_const_t<T>(clone(value));
    else
      return (value);
  } else {
    return (value);
  }
}
}  // namespace detail

// Collects what is to be compiled, and compiles it at once.
class Precompiler {
 public:
  explicit Precompiler(const PrecompileOptions& options = {});  // nothing is to be compiled yet

  // f for these arguments. It is traced now, by this thread; a trace that fails is an entry of the report. A function
  // that reads values needs arguments that have them.
  template <class... T, class... A>
  void add(const Compiled<T...>& f, A&&... argument) {
    auto body = [&] { f.inspect({detail::Inquiry::compile}, std::forward<A>(argument)...); };
    detail::add_dry_run(
        *state_, detail::title_of(f.function().get()),
        [](void* context) { (*static_cast<decltype(body)*>(context))(); }, &body);
  }
  // What `program(arguments...)` calls, which runs without computing: each compiled function that it calls is traced,
  // in a differentiation level with its derivatives, and gives tensors without values. Models and other objects are
  // passed as copies.
  template <detail::NotCompiled F, class... A>
  requires std::invocable < F&, std::remove_reference_t<A>
  &... > void add(F&& program, A&&... argument) {
    auto body = [&] { [&](auto&&... copy) { (void)program(copy...); }(detail::copy_for_dry_run(argument)...); };
    detail::add_dry_run(
        *state_, "a program", [](void* context) { (*static_cast<decltype(body)*>(context))(); }, &body);
  }
  // Compiles what was added since the last run, by several threads, and returns when it is done.
  PrecompileReport run();

 private:
  std::shared_ptr<detail::PrecompileState> state_;
};

// One function, or one program: Precompiler's add and run.
template <class F, class... A>
PrecompileReport precompile(F&& f, A&&... argument) {
  Precompiler all;
  all.add(std::forward<F>(f), std::forward<A>(argument)...);
  return all.run();
}

// The bytes of the file that save_cache writes: of processes that start together one compiles, and sends the others
// these. Throws as save_cache does, but for what is about the file.
std::vector<std::byte> cache_bytes(Loc loc = Loc::current());
// load_cache of such bytes.
std::size_t load_cache(std::span<const std::byte> bytes, Loc loc = Loc::current());

}  // namespace weft
