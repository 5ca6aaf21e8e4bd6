// explain(f, args...): what a compiled function does for these arguments. Compiles where that has not happened yet, and
// runs nothing but what a function that reads values needs to decide: state stays as it is.
//   std::cout << explain(step, model, x, y);
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "weft/compile.hpp"

namespace weft {

struct Explanation {                 // what explain() tells of a compiled function
  std::string graph;                 // as traced, an operation a line, with the user's lines
  std::string optimized;             // after the passes
  std::vector<std::string> guards;   // what must hold of the arguments
  std::string schedule;              // steps in order, and why neighbours were not fused
  std::vector<std::string> regions;  // what is repeated, a line each: how often, and by how many kernels
  struct Kernel {                    // a generated kernel
    std::string name;                // of its function in the source
    std::int64_t bytes = 0;          // moved, at the traced sizes
    std::int64_t operations = 0;     // of arithmetic, at the traced sizes
    std::string loops;               // the loop nest
    std::string source;              // its part of the generated source
  };
  std::vector<Kernel> kernels;  // in the order of the schedule
  // A stage of the compilation, from the traced graph to launches.
  struct Pass {
    std::string name;         // as WEFT_SKIP_PASSES takes it
    double milliseconds = 0;  // that it took
    std::size_t size = 0;     // of its result: nodes, steps, buffers, units of source, functions or launches
  };
  std::vector<Pass> passes;          // in order
  double trace_milliseconds = 0;     // that recording the function took, before these
  double autograd_milliseconds = 0;  // of the recording, for derivatives
  std::vector<std::string> cache;    // where plan and kernels came from, a line each, and of a miss what differs
  std::string source_path;           // of the generated source
  std::int64_t arena_bytes = 0;      // temporary memory, at the traced sizes
  // What a call with these arguments takes of memory, in bytes. MemoryMeter measures it (memory.hpp).
  struct Memory {
    std::int64_t taken = 0;           // beside arguments and constants: the next three
    std::int64_t temporaries = 0;     // one block, which is kept for the next call; others lie in results
    std::int64_t results = 0;         // but those that are written where an argument was
    std::int64_t workspace = 0;       // what steps want beside their operands, where it finds no place in the block
    std::int64_t arguments = 0;       // state included
    std::int64_t constants = 0;       // which the compiled function keeps
    std::int64_t offloaded = 0;       // page-locked, of the host, for temporaries of a device (offload.hpp)
    std::vector<std::int64_t> live;   // by step: of temporaries and results that hold a value then
    std::vector<std::string> steps;   // their names
    std::size_t peak = 0;             // the step where `live` is largest
    std::vector<std::string> owners;  // the largest values in memory then, with the user's lines, the largest first
  };
  Memory memory;
  // What is computed again, so that it is not held meanwhile, by memory_budget or checkpoint: a line for each operation
  // that reads it, with the estimated share of the time; below it, indented, the values with bytes and the user's
  // lines.
  std::vector<std::string> recomputed;
  std::vector<std::string> recompiles;  // why, oldest first
  // Of a function that reads values: the tree of outcomes, a line each, indented below the outcome before. The texts
  // above are then of what runs up to the first decision.
  std::vector<std::string> decisions;
  // Derivatives that were compiled of calls inside value_and_grad and grad, a line each, below the specialization that
  // they are of; indented those of derivatives.
  std::vector<std::string> derivatives;
  std::size_t specializations = 0;  // made so far, without derivatives
  std::string fallback;             // why it runs eagerly; empty where it does not
};
std::string to_string(const Explanation& explanation);                        // all of it, as a text
std::ostream& operator<<(std::ostream& out, const Explanation& explanation);  // the same
namespace detail {
// Throws Error with a sentence where there is no device, and that is what the error says.
void refuse_without_device(const Function* function, const Error& error);
}  // namespace detail
// What f does for these arguments. Compiles where that has not happened yet, and runs nothing. Throws as a call does;
// of arguments on a GPU where there is none explain_for tells.
template <class... T, class... A>
Explanation explain(const Compiled<T...>& f, A&&... argument) {
  Explanation explanation;
  try {
    f.inspect({detail::Inquiry::explain, &explanation}, std::forward<A>(argument)...);
  } catch (const Error& error) {
    detail::refuse_without_device(f.function().get(), error);
    throw;
  }
  return explanation;
}

namespace detail {
template <class A>  // as a generic compiled function takes it: what is moved and const is only read
using GivenArgument = std::conditional_t<std::is_lvalue_reference_v<A> || std::is_const_v<A>, A&, A>;
// A function of the same options whose kernels are for a device of this target, and are not called. Throws Error where
// there is no such target.
FunctionHandle function_for_target(const Function* like, const char* target);
}  // namespace detail
// The same on a GPU that need not be there: "sm_90a", or another that EntryOptions::devices names. Tensors of the host
// are taken as if they lay on the device, unless another argument does. Compiles anew, with NVRTC, and runs nothing; f
// stays as it is. Throws as a call does, and where the target is none or f reads values.
template <class F, class R, class... T, class... First, class... P, class... A>
Explanation explain_for(const char* target,
                        const Compiled<F, R, Bound<T...>, detail::TypeList<First...>, detail::TypeList<P...>>& f,
                        A&&... argument) {
  const detail::FunctionHandle made = detail::function_for_target(f.function().get(), target);
  Explanation explanation;
  const auto ask = [&](std::remove_reference_t<P>&... given) {
    f.bound().apply([&](T&... bound) {
      detail::inspect<R, First..., P...>(made, f.plain(), Loc(), {detail::Inquiry::explain, &explanation}, bound...,
                                         given...);
    });
  };
  const auto convert = [&](P... given) { ask(given...); };
  convert(std::forward<A>(argument)...);
  return explanation;
}
// Of a generic callable: the arguments' types are the call's.
template <class F, class... T, class... A>
Explanation explain_for(const char* target, const Compiled<F, void, Bound<T...>, void, void>& f, A&&... argument) {
  const detail::FunctionHandle made = detail::function_for_target(f.function().get(), target);
  Explanation explanation;
  f.bound().apply([&](T&... bound) {
    using R = std::remove_cvref_t<decltype(std::declval<F&>()(bound..., std::declval<detail::GivenArgument<A>>()...))>;
    detail::inspect<R, T&..., detail::GivenArgument<A>...>(
        made, f.plain(), Loc(), {detail::Inquiry::explain, &explanation}, bound..., argument...);
  });
  return explanation;
}

// Whether a call with these arguments would run without compiling: the check of guards alone. A function that reads
// values may still come to an outcome that is new.
template <class... T, class... A>
bool is_compiled(const Compiled<T...>& f, A&&... argument) {
  return f.inspect({detail::Inquiry::is_compiled}, std::forward<A>(argument)...);
}

// How often a function was compiled, and why it was compiled again: the last reason, empty for none.
namespace detail {
std::size_t specialization_count(const Function* function);
std::string last_recompile_reason(const Function* function);
}  // namespace detail
template <class... T>
std::size_t specialization_count(const Compiled<T...>& f) {
  return detail::specialization_count(f.function().get());
}
template <class... T>
std::string last_recompile_reason(const Compiled<T...>& f) {
  return detail::last_recompile_reason(f.function().get());
}

// Other callables are refused. The comment is a part of what the compiler says.
template <detail::NotCompiled F, class... A>
Explanation explain(F&&, A&&...) = delete;  // weft: explain takes a compiled function: wrap it in weft::compile
template <detail::NotCompiled F, class... A>
bool is_compiled(F&&, A&&...) = delete;  // weft: is_compiled takes a compiled function: wrap it in weft::compile
template <class... A>
Explanation explain(const detail::Refused&, A&&...);  // compile() has given its sentence
template <class... A>
bool is_compiled(const detail::Refused&, A&&...);
template <detail::NotCompiled F>
std::size_t specialization_count(F&&) = delete;  // weft: this takes a compiled function: wrap it in weft::compile
template <detail::NotCompiled F>
std::string last_recompile_reason(F&&) = delete;  // weft: this takes a compiled function: wrap it in weft::compile

}  // namespace weft
