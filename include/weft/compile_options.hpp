// What compile() can be asked for. Plain data, so that the pipeline reads it without the templates of compile().
#pragma once
#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>

#include "weft/dtype.hpp"

namespace weft {

// Who runs a specialization: generated kernels; the eager executor, operation by operation; or the reference
// interpreter in float64, which rounds every value to its dtype.
enum class Backend : std::uint8_t { compiled, eager, reference };

// One of these, or a name: "compiled", "eager", "reference"; "cpu", "cuda": generated kernels, and an Error where the
// function's tensors are not there; "aot_eager": the graph after the passes, operation by operation; or what
// register_backend (weft/backends.hpp) was given. compile() reads it, and throws Error where nobody has that name.
struct BackendName {
  Backend own = Backend::compiled;  // where there is no name
  std::string_view name = {};       // of a text that lives until compile() returns

  constexpr BackendName(Backend backend) : own(backend) {}  // one of Weft's own
  // What has this name: a literal, a std::string.
  template <class T>
  requires std::convertible_to<const T&, std::string_view>
  constexpr BackendName(const T& given) : name(given) {}
};

// How often the function is traced again and compared, to find what guards cannot see (a global that is read): on calls
// 2, 4, 8, 16, ... of each specialization; on every call; or never. A difference is an Error, and the specialization
// is dropped: the next call traces anew.
enum class Check : std::uint8_t { sampled, every_call, never };

// What the compilation of kernels takes time for. docs/options.md says what each costs and gives.
enum class Level : std::uint8_t {
  O0,  // a kernel for each operation, by the compiler's -O1: shows what fusion does
  O1,  // fused, by -O1: the first call is sooner
  O2,  // fused, by -O3, or what WEFT_KERNEL_OPTIMIZATION says
  O3,  // as O2, and where several libraries or kernels of a library do a product or a convolution, they are timed
};

// How calls run on a device, and Level::O3, by the names of torch.compile's modes. docs/options.md has more. In none of
// them a call overwrites the results of another.
enum class CompileMode : std::uint8_t {
  automatic,        // calls of three steps or more that come back to the same memory are replayed as CUDA graphs
  reduce_overhead,  // so are all others, and sooner: a call depends less on the host. On the CPU the same as automatic
  max_autotune,     // sets Level::O3; calls as under automatic
};

// Whether a compiled function rounds bf16 and f16 as the plain one does.
enum class Precision : std::uint8_t {
  eager_exact,  // after every operation: the bits are those of eager calls
  fused,        // where a kernel keeps or reads a value; what it computes on the way stays f32. explain() counts them
};

// How products and convolutions of f32 are computed on a GPU, in a compiled function; elsewhere nothing changes.
enum class Float32Products : std::uint8_t {
  ieee,  // in f32
  tf32,  // by tensor cores, where a library takes them so: operands are rounded to 10 bits of fraction, sums are f32
};

// What becomes of the repeated parts of a function: blocks of a model, steps of a loop in C++, forward and backward.
enum class Region : std::uint8_t {
  automatic,  // they are found, and what they do is scheduled and compiled once; region(fn) says more (weft/region.hpp)
  never,      // every part is scheduled by itself, and region(fn) does nothing
};

// What to do when kernels cannot be compiled, or a function was compiled too often: run eagerly and say so once, or
// throw (CompileError, Error).
enum class OnFailure : std::uint8_t { run_eagerly, raise };

// Which sizes of the arguments are symbolic, so that one specialization serves them all: those that differ from an
// earlier call's (the default: the first call is compiled for its sizes, and the next for any), all, or none. Sizes of
// Params and Buffers count among those that differ only under `true`. A size of 0 or 1 never is symbolic. mark_dynamic
// and mark_static (weft/compile.hpp) say it of one size.
struct Dynamic {
  // Which sizes: those that differ from an earlier call's, all, or none.
  enum class Sizes : std::uint8_t { that_differ, all, none };
  Sizes sizes = Sizes::that_differ;  // these are symbolic

  constexpr Dynamic() = default;
  // true: all sizes; false: none.
  constexpr Dynamic(std::same_as<bool> auto on) : sizes(on ? Sizes::all : Sizes::none) {}
};

// A call throws Error where the function is refused (a tensor from outside, a handle that outlives it, ...), where
// Check finds another computation, or where a check of the function itself fails (an index out of range); under `raise`
// also CompileError for kernels and Error beyond the limit; OutOfMemory where memory ends. State is as before the call
// then.
struct CompileOptions {
  Dynamic dynamic = {};                                 // which sizes of the arguments are symbolic
  Check check = Check::sampled;                         // how often the function is traced again and compared
  BackendName backend = Backend::compiled;              // who runs it
  Level level = Level::O2;                              // what the compilation of kernels takes time for
  CompileMode mode = CompileMode::automatic;            // whether more calls are replayed as CUDA graphs, or Level::O3
  OnFailure on_compile_error = OnFailure::run_eagerly;  // where kernels cannot be compiled
  OnFailure on_recompile_limit = OnFailure::run_eagerly;  // beyond recompile_limit
  int recompile_limit = 8;                                // specializations beyond the first, over the function's life
  int cache_size = 64;  // specializations kept; about the least recently used one goes first
  // Whether a value that the function reads with item<bool>() or item<int>() is an Error. By default it is a decision:
  // what was recorded so far is compiled by itself, and each outcome has what follows compiled.
  bool fullgraph = false;
  int decision_limit = 64;  // different pieces compiled of one specialization; further ones run eagerly
  // Whether a decision on a boolean becomes a select where both of its sides are cheap, draw nothing, check nothing and
  // give the same types: once both outcomes were seen, one segment computes both. Results are the same bits.
  bool auto_select = false;
  // In which 16-bit type products are computed, as in a scope Autocast (weft/autocast.hpp): bf16, f16, or
  // Autocast::off. By default it is that of the scope in which the function is called.
  std::optional<DType> autocast = {};
  Precision precision = Precision::eager_exact;  // whether roundings to bf16 and f16 inside kernels are left out
  Float32Products float32_products = Float32Products::ieee;  // PyTorch's allow_tf32, which is off there as well
  Region region = Region::automatic;  // whether repeated parts of the function are scheduled once
  // Whether calls run eagerly while kernels are made for them in the background, by threads of a low priority. A
  // compile error is reported then, and the function goes on eagerly. wait_compiled(f) waits (weft/stance.hpp).
  bool async = false;
  // From 0 to 1, else compile() throws Error: which part of the bytes that derivatives read of the way forward is held
  // for them, in a step that is compiled whole and in a model that is differentiated outside. The rest is computed
  // again, first what takes the least time for its bytes. docs/memory.md has more.
  double memory_budget = 1;
  // Whether the first call inside a level compiles the derivative as well, for gradients of all of its results. By
  // default it is compiled at its first use.
  bool derivative_at_once = false;
  // Whether Params and Buffers that the function only reads count as constants, as PyTorch's freezing has it: from the
  // second call with the same values on, what kernels make of them (weights of products in the order in which they are
  // read) is kept, beside the values, and a batch norm in evaluation goes into the weights before it, which rounds
  // differently. Other values may come at any time, and are seen. For inference: training changes them.
  bool constant_parameters = false;
};

}  // namespace weft
