// The typed half of a compiled function's call: leaves of its arguments and results, how it is traced, and which types
// a signature may hold. In: typed arguments. Out: plain data for src/trace.
#pragma once
#include "weft/autocast.hpp"
#include "weft/compile_options.hpp"
#include "weft/detail/callable.hpp"
#include "weft/detail/refuse.hpp"
#include "weft/flatten.hpp"

namespace weft {

struct Explanation;

enum class Stance : std::uint8_t;  // weft/stance.hpp

namespace detail {

struct Function;        // what copies of one compiled function share
struct Specialization;  // what was compiled for one kind of arguments
struct Scratch;         // a thread's buffers for one call
class Tracer;           // a trace being taken

// The types of one call. Its address represents them in guards.
struct CallSignature {
  const TypeDescription* const* arguments;
  int argument_count;
  const TypeDescription* result;  // null for void
};

Function* make_function(const CompileOptions& options, Loc loc);
void retain(Function* function) noexcept;
void release(Function* function) noexcept;
// Until the end of the block autocast is as the function's options say, if they do.
class FunctionModes {
 public:
  explicit FunctionModes(const Function* function);

 private:
  std::optional<Autocast> autocast_;
};
// Inside a trace or with_taps a compiled function is a plain function: its operations join. Under Stance::force_eager
// it is one, too.
bool joins_caller();
// A call that runs as the plain function, until the end of the block. Throws Error where so many are inside each other
// that the function calls itself without end.
class PlainCall {
 public:
  PlainCall(const Function* function, Loc loc);
  ~PlainCall();
  PlainCall(const PlainCall&) = delete;
};

class FunctionHandle {
 public:
  explicit FunctionHandle(Function* function) : function_(function) {}
  FunctionHandle(const FunctionHandle& other) noexcept : function_(other.function_) { retain(function_); }
  FunctionHandle& operator=(FunctionHandle other) noexcept {
    std::swap(function_, other.function_);
    return *this;
  }
  ~FunctionHandle() { release(function_); }
  Function* get() const { return function_; }

 private:
  Function* function_;
};

// Runs the user's function under `tracer`; `context` is the typed call.
using TraceBody = void (*)(void* context, Tracer& tracer);

// One call. Holds the thread's scratch from construction to destruction.
class Call {
 public:
  Call(Function* function, const CallSignature& signature, TraceBody body, void* context, Loc loc);
  ~Call();
  Call(const Call&) = delete;

  template <class T>
  void argument(T& object, Access by) {
    arguments_->access = by;
    arguments_->run(&object, sizeof object);
    flatten(object, *arguments_);
    ++arguments_->argument;
  }
  // Finds what was compiled for these arguments, or traces and compiles, whatever the stance. Returns the result's
  // prototype: a value of the result type with undefined tensors; null for void.
  const void* prepare();
  // The same, as the stance says: false where the call is to run as a plain one.
  bool begin();
  const void* prototype() const;
  // Whether the guards of something hold: nothing is compiled.
  bool known();
  template <class T>
  void result(T& object) {
    flatten(object, *results_);
  }
  // Computes, then gives results and state their new tensors.
  void run();
  void explain(Explanation& explanation);
  void make_kernels();  // and waits for them

 private:
  bool prepare_under(Stance stance);
  Function* function_;
  const CallSignature& signature_;
  TraceBody body_;
  void* context_;
  Loc loc_;
  Scratch* scratch_;
  LeafList* arguments_;
  LeafList* results_;
  const Specialization* specialization_ = nullptr;
};

// What the traced function gets and gives, in this order.
class Tracer {
 public:
  template <class T>
  void argument(T& object, Access by) {
    arguments.access = by;
    flatten(object, arguments);
    ++arguments.argument;
  }
  // An argument that cannot be copied is traced in place and restored.
  template <class T>
  void in_place(T& object) {
    remember(&object, [](void* address, LeafList& list) { flatten(*static_cast<T*>(address), list); });
  }
  void begin();  // tensors of the arguments become inputs of the trace
  template <class R>
  void result(R* object) {
    own(object, [](void* address) { delete static_cast<R*>(address); });
    flatten(*object, results);
  }
  template <class T>
  void final_state(T& object) {
    flatten(object, finals);
  }
  void end();  // collects results and state, and puts back what was traced in place

 protected:
  Tracer() = default;
  ~Tracer() = default;
  LeafList arguments, results, finals;

 private:
  void remember(void* object, void (*list)(void*, LeafList&));
  void own(void* result, void (*destroy)(void*));
};

// ---- what a signature may hold --------------------------------------------------------------------------------------

enum class Problem : std::uint8_t { none, pointer, bools, other };
template <class T>
concept PackedBools = std::is_same_v<typename T::value_type, bool> && !std::is_same_v<typename T::reference, bool&>;
template <class Offending>
consteval Problem problem_of() {
  if constexpr (std::is_void_v<Offending> || flaw_of<Offending>() != Flaw::none)
    return Problem::none;
  else
    return std::is_pointer_v<Offending> ? Problem::pointer : PackedBools<Offending> ? Problem::bools : Problem::other;
}
// An error here names the type that does not fit as `Offending`.
template <class Offending, Problem problem = problem_of<Offending>()>
consteval bool check_type() {
  static_assert(
      problem != Problem::pointer,
      "weft: a raw pointer is passed to or returned by a compiled function: what it points to cannot be guarded; "
      "pass the object itself");
  static_assert(problem != Problem::bools,
                "weft: the elements of std::vector<bool> are no objects: use std::vector<char>");
  static_assert(
      problem != Problem::other,
      "weft: arguments and results of a compiled function are tensors (Tensor, Param, Buffer, Scalar, Index), "
      "numbers, enums, std::string, vector, array, optional, tuple, variant, map, unique_ptr of those, and structs of "
      "those: "
      "plain, or with WEFT_MEMBERS(a, b, ...) inside, as private members, a base and virtual functions need. "
      "This type is none of them");
  return check_members<Offending>();
}
template <class P>
using Value = std::remove_cvref_t<P>;
template <class P>
inline constexpr bool is_state = std::is_lvalue_reference_v<P> && !std::is_const_v<std::remove_reference_t<P>>;
template <class P>
inline constexpr Access access = is_state<P>                     ? Access::state
                                 : std::is_lvalue_reference_v<P> ? Access::input
                                                                 : Access::owned;

// An argument as the traced function gets it: a copy where the type can be copied, so that the caller's stays
// untouched.
template <class P, bool copied = cloneable<Value<P>>()>
struct TracedArgument {
  explicit TracedArgument(const Value<P>& original) : value(clone(original)) {}
  Value<P> value;
};
template <class P>
struct TracedArgument<P, false> {
  explicit TracedArgument(Value<P>& original) : value(original) {}
  Value<P>& value;
};

template <class R, class... P, class F>
void trace_body(const F& f, Tracer& tracer, TracedArgument<P>... argument) {
  (tracer.argument(argument.value, access<P>), ...);
  (
      [&] {
        if constexpr (!cloneable<Value<P>>()) tracer.in_place(argument.value);
      }(),
      ...);
  tracer.begin();
  F callable = f;
  if constexpr (std::is_void_v<R>)
    callable(static_cast<P&&>(argument.value)...);
  else
    tracer.result(new R(callable(static_cast<P&&>(argument.value)...)));
  (
      [&] {
        if constexpr (is_state<P>) tracer.final_state(argument.value);
      }(),
      ...);
  tracer.end();
}

template <class R>
constexpr const TypeDescription* describe_result() {
  if constexpr (std::is_void_v<R>)
    return nullptr;
  else
    return &Description<R>::value;
}
template <class R, class... P>
struct SignatureOfCall {
  static constexpr CallSignature value{ChildDescriptions<Value<P>...>::list, sizeof...(P), describe_result<R>()};
};

// The whole call.
template <class R, class... P, class F>
R call(const FunctionHandle& function, const F& f, Loc loc, std::remove_reference_t<P>&... argument) {
  static_assert(std::is_void_v<R> || cloneable<std::conditional_t<std::is_void_v<R>, int, R>>(),
                "weft: the result of a compiled function must be copyable");
  const FunctionModes modes(function.get());
  if (joins_caller()) {
    const PlainCall plain(function.get(), loc);
    F callable = f;
    return callable(static_cast<P&&>(argument)...);
  }
  auto body = [&](Tracer& tracer) { trace_body<R, P...>(f, tracer, TracedArgument<P>(argument)...); };
  TraceBody erased = [](void* context, Tracer& tracer) { (*static_cast<decltype(body)*>(context))(tracer); };
  {
    Call call(function.get(), SignatureOfCall<R, P...>::value, erased, &body, loc);
    (call.argument(argument, access<P>), ...);
    if (call.begin()) [[likely]] {
      if constexpr (std::is_void_v<R>) {
        call.run();
        return;
      } else {
        R result = clone(*static_cast<const R*>(call.prototype()));
        call.result(result);
        call.run();
        return result;
      }
    }
  }
  const PlainCall plain(function.get(), loc);
  F callable = f;
  return callable(static_cast<P&&>(argument)...);
}

// What is asked about a call, without calling: whether it is compiled, that it gets compiled, or what it does.
struct Inquiry {
  enum What : std::uint8_t { is_compiled, compile, explain } what;
  Explanation* explanation = nullptr;
};
template <class R, class... P, class F>
bool inspect(const FunctionHandle& function, const F& f, Loc loc, const Inquiry& inquiry,
             std::remove_reference_t<P>&... argument) {
  auto body = [&](Tracer& tracer) { trace_body<R, P...>(f, tracer, TracedArgument<P>(argument)...); };
  TraceBody erased = [](void* context, Tracer& tracer) { (*static_cast<decltype(body)*>(context))(tracer); };
  const FunctionModes modes(function.get());
  Call call(function.get(), SignatureOfCall<R, P...>::value, erased, &body, loc);
  (call.argument(argument, access<P>), ...);
  if (inquiry.what == Inquiry::is_compiled) return call.known();
  call.prepare();
  if (inquiry.what == Inquiry::compile)
    call.make_kernels();
  else
    call.explain(*inquiry.explanation);
  return true;
}

// What is taken by const& is copied for tracer.
template <class P>
constexpr bool can_be_traced() {
  if constexpr (!Flattenable<Value<P>>)
    return false;
  else
    return is_state<P> || !std::is_lvalue_reference_v<P> || cloneable<Value<P>>();
}
template <class P>
consteval bool check_parameter() {
  static_assert(can_be_traced<P>() || !Flattenable<Value<P>>,
                "weft: a type that cannot be copied is taken by const& in a compiled function: take it by &");
  return true;
}
template <class... P>
consteval bool check_types() {
  return ((check_type<typename FirstUnsupported<Value<P>>::type>() && check_parameter<P>()) && ... && true);
}
// What a refused call would return: of the function's type, so that what is done with it is no further error.
template <class R>
R refused() {
  __builtin_unreachable();
}
// What compile() returns of what it refuses: it can be called with anything.
struct Refused {
  template <class... A>
  Tensor operator()(A&&...) const {
    return refused<Tensor>();
  }
};
template <class R>
consteval bool check_result() {
  if constexpr (std::is_void_v<R>)
    return true;
  else
    return check_types<R>();
}
template <class R, class... P>
inline constexpr bool fits = (can_be_traced<std::conditional_t<std::is_void_v<R>, int, R>>() && ... &&
                              can_be_traced<P>());

}  // namespace detail

}  // namespace weft
