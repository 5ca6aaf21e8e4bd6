// When compiled functions compile: ahead of their first call, in the background, or not at all.
//   warm_up(step, model, x, y);                        // trace and compile, and compute nothing
//   StanceScope serving(Stance::fail_on_recompile);    // from here on a call that would compile is an Error
#pragma once
#include <cstdint>

#include "weft/compile.hpp"

namespace weft {

// What a call of a compiled function does where nothing that was compiled fits it.
enum class Stance : std::uint8_t {
  compile,             // it compiles, as CompileOptions say
  force_eager,         // compiled functions run as plain ones, also where something compiled fits
  eager_on_recompile,  // the call runs as a plain one; what is compiled already is used
  fail_on_recompile,   // an Error, which says what differs
  eager_then_compile,  // the first call of a kind of arguments runs as a plain one, the second compiles
};
// For all threads of the process, from here on.
void set_stance(Stance stance);
// For this thread, until the end of the block; the innermost scope counts.
class StanceScope {
 public:
  // Until the end of the block.
  [[nodiscard("weft: a scope without a name ends at once")]] explicit StanceScope(Stance stance);
  ~StanceScope();  // the stance is as it was before
  StanceScope(const StanceScope&) = delete;

 private:
  std::uint8_t saved_;
};

// Compiles f for these arguments where that has not happened yet, and waits for the kernels, also of an `async`
// function. It computes only what a function that reads values needs to decide; state stays as it is. Throws as a call
// does.
template <class... T, class... A>
void warm_up(const Compiled<T...>& f, A&&... argument) {
  f.inspect({detail::Inquiry::compile}, std::forward<A>(argument)...);
}

// Returns when all kernels that calls of f have asked for are made. Throws CompileError where some could not be made
// and f was compiled with {.async = true, .on_compile_error = OnFailure::raise}.
namespace detail {
void wait_compiled(Function* function);
}
template <class... T>
void wait_compiled(const Compiled<T...>& f) {
  detail::wait_compiled(f.function().get());
}

// Other callables are refused. The comment is a part of what the compiler says.
template <detail::NotCompiled F, class... A>
void warm_up(F&&, A&&...) = delete;  // weft: warm_up takes a compiled function: wrap it in weft::compile
template <detail::NotCompiled F>
void wait_compiled(F&&) = delete;  // weft: wait_compiled takes a compiled function: wrap it in weft::compile

}  // namespace weft
