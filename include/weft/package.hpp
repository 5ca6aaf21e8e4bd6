// Packages: compiled functions in one file, which a program loads and calls without a C++ compiler, without a cache and
// without the functions' code.
//   package("mlp.weft", "forward", forward, model, x);                        // where it was compiled
//   const Package loaded = load_package("mlp.weft");                          // where it is to run
//   const auto forward = loaded.function<Tensor(const Mlp&, const Tensor&)>("forward");
//   Tensor y = forward(model, x);
// In: compiled functions and example arguments; there, the types of the function. Out: a file; there, something to
// call. Invariant: every call is held against what the package holds, as a compiled function's guards are, and one that
// does not fit is an Error that says what came and what the package holds.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weft/compile.hpp"

namespace weft {

namespace runtime {
struct PackageLeaf;
}
class Package;

// How a function is packaged.
struct EntryOptions {
  // What is bound to the function is in the file: its tensors as weights, which are mapped and not copied where the
  // package is loaded, and the rest as it is now. No call passes it: compile(f, bind(model)) becomes a function of f's
  // other parameters.
  bool weights = false;
  // Kernels for each of these instruction sets: baseline, avx2 and avx512 of x86-64, neon of arm64. This machine need
  // not have them; those of another architecture want a cross compiler (g++-aarch64-linux-gnu). Where the package is
  // loaded, the largest one that the machine there has is taken: results may differ in their last bits.
  // Empty: for this machine's alone (WEFT_ISA). The function is traced anew for each, so only mark_dynamic and
  // CompileOptions::dynamic say which sizes may vary.
  std::vector<std::string> isa = {};
  // Code for each of these devices: "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120", and "compute_80"
  // to "compute_120" for PTX, which the driver compiles for its device and which runs on later ones too. No device is
  // needed here, but NVRTC. The arguments lie on the device, or all on the host: then the function is packaged as if
  // their tensors were on cuda:0. Where the package is loaded, the best code for the device there is taken. Empty: for
  // the device that the arguments lie on, with PTX; of arguments on the host, for the CPU. With `isa` too, the file has
  // both: a call takes what its arguments lie on.
  std::vector<std::string> devices = {};
};

// The name of a function in a package, how it is packaged, and the line that says so: "forward", or
// {"forward", {.weights = true}}.
struct EntryName {
  // A literal or a std::string, whose text lives until the call ends.
  template <class T>
  requires std::convertible_to<const T&, std::string_view> EntryName(const T& name, Loc line = Loc::current())
      : text(name), loc(line) {}
  template <class T>
  requires std::convertible_to<const T&, std::string_view> EntryName(const T& name, const EntryOptions& how,
                                                                     Loc line = Loc::current())
      : text(name), options(how), loc(line) {}
  std::string_view text;      // the name
  EntryOptions options = {};  // how
  Loc loc;                    // the line, for messages
};

namespace detail {

// What a function's arguments and result are made of, a line each: `argument 0 (in.weight): Param`.
class TypeLines {
 public:
  void argument(int position);
  void result();
  void line(TypeKind kind, std::size_t repeat);
  void number(NumberKind kind, std::size_t size);
  void same_as_around();  // a type inside itself
  // Goes to a part, by its name or its position; without a name of any position that is below 0.
  void enter(const MemberName* name, int position);
  void leave();

  std::vector<std::string> lines;

 private:
  void add(const std::string& what);
  std::string whole_;
  std::vector<std::string> path_;
};
template <class T, class... Open>
void list_types(TypeLines& to) {
  constexpr TypeKind kind = type_kind<T>();
  if constexpr ((std::is_same_v<T, Open> || ...)) {
    to.same_as_around();
  } else if constexpr (kind == TypeKind::number) {
    to.number(number_kind<T>(), sizeof(T));
  } else {
    to.line(kind, Description<T>::value.repeat);
    [&]<class... Child>(TypeList<Child...>) {
      int position = kind == TypeKind::list || kind == TypeKind::array ? -1 : 0;
      const MemberName* name = nullptr;
      if constexpr (kind == TypeKind::structure) name = members<T>::names;
      ((to.enter(name, position++), name = name ? name + 1 : name, list_types<Child, T, Open...>(to), to.leave()), ...);
    }(child_types<T>());
  }
}
// Without the first parameters, `bound` of them.
template <class R, class... P>
TypeLines types_of_call(int bound = 0) {
  TypeLines lines;
  int position = -bound;
  ((position >= 0 ? (lines.argument(position), list_types<Value<P>>(lines)) : void(), ++position), ...);
  lines.result();
  if constexpr (!std::is_void_v<R>) list_types<R>(lines);
  return lines;
}

// The leaves of a result as the package holds them, in order. Each throws where the next leaf is another.
class ResultReader {
 public:
  ResultReader(const runtime::PackageLeaf* begin, const runtime::PackageLeaf* end) : next_(begin), end_(end) {}
  bool tensor();  // of a Param: whether it is frozen
  void numbers(void* to, std::size_t bytes);
  std::string text();
  bool presence();
  std::size_t length(std::size_t packed);  // of a list; `packed`: bytes of an element, where they are numbers; else 0
  bool at_end() const { return next_ == end_; }

 private:
  const runtime::PackageLeaf& take();
  const runtime::PackageLeaf *next_, *end_;
};
template <class T>
consteval bool can_be_restored() {
  constexpr TypeKind kind = type_kind<T>();
  return kind != TypeKind::map && kind != TypeKind::pointer && kind != TypeKind::polymorphic &&
         kind != TypeKind::variant && std::is_default_constructible_v<T>;
}
// Makes of a new object what the function gave when it was packaged, but for the tensors, which stay undefined.
template <class T>
void restore(T& value, ResultReader& from) {
  constexpr TypeKind kind = type_kind<T>();
  static_assert(
      can_be_restored<T>(),
      "weft: what a function of a package returns is made of tensors, numbers, text, vector, array, optional, "
      "tuple, and structs of those that can be made without arguments");
  if constexpr (kind == TypeKind::param) {
    value.frozen = from.tensor();
  } else if constexpr (kind <= TypeKind::index) {
    (void)from.tensor();
  } else if constexpr (kind == TypeKind::number) {
    from.numbers(&value, sizeof value);
  } else if constexpr (kind == TypeKind::text) {
    value = from.text();
  } else if constexpr (kind == TypeKind::optional) {
    if (from.presence()) restore(value.emplace(), from);
  } else if constexpr (kind == TypeKind::list || kind == TypeKind::array) {
    using Element = std::remove_cvref_t<decltype(*std::begin(value))>;
    if constexpr (kind == TypeKind::list) value.resize(from.length(packs<Element> ? sizeof(Element) : 0));
    if constexpr (packs<Element>)
      from.numbers(std::data(value), std::size(value) * sizeof(Element));
    else
      for (auto& element : value) restore(element, from);
  } else if constexpr (kind == TypeKind::tuple) {
    [&]<int... index>(std::integer_sequence<int, index...>) { (restore(get<index>(value), from), ...); }
    (std::make_integer_sequence<int, std::tuple_size<T>::value>());
  } else if constexpr (kind == TypeKind::structure) {
    members<T>::visit(value, [&](auto&... member) { (restore(member, from), ...); });
  }
}
// Null for void.
using MakeResult = std::shared_ptr<void> (*)(ResultReader& from);

struct LoadedPackage;
struct PackageDraft;
struct EntryWeights;
// Adds the innermost call of this thread, whose result is there too.
// `function` is whose name it has, `own` what has its kernels.
void add_call(PackageDraft& to, EntryName name, const FunctionHandle& function, const FunctionHandle& own,
              const CallSignature& signature, TypeLines types, int bound);
// The function itself, or where its kernels are to be for other machines: of each instruction set and device another
// one with the same options, which nobody has called. Throws Error where there is none of a name, or no compiler for
// it.
std::vector<FunctionHandle> functions_to_package(const FunctionHandle& function, const EntryName& entry,
                                                 const LeafList& arguments);
// `weights`: those that its plans read; null where they read none.
FunctionHandle package_function(const std::shared_ptr<const LoadedPackage>& package, const std::string& name,
                                const CallSignature& signature, const TypeLines& types, const Access* accesses,
                                MakeResult make, std::shared_ptr<const EntryWeights>& weights, Loc loc);
// Finds what the package holds for the call's arguments. Throws Error where it holds nothing.
void begin_package_call(Call& call, const Function& function, const EntryWeights* weights, Loc loc);

// `bound`: how many of the first arguments are bound to the function.
template <class R, class... P, class F>
void add_kernels_to_package(PackageDraft& to, const EntryName& name, int bound, const FunctionHandle& function,
                            const FunctionHandle& own, const F& f, std::remove_reference_t<P>&... argument) {
  auto body = [&](Tracer& tracer) { trace_body<R, P...>(f, tracer, TracedArgument<P>(argument)...); };
  TraceBody erased = [](void* context, Tracer& tracer) { (*static_cast<decltype(body)*>(context))(tracer); };
  const FunctionModes modes(own.get());
  Call call(own.get(), SignatureOfCall<R, P...>::value, erased, &body, name.loc);
  (call.argument(argument, access<P>), ...);
  const void* prototype = call.prepare();
  call.make_kernels();
  const auto add = [&] {
    add_call(to, name, function, own, SignatureOfCall<R, P...>::value,
             types_of_call<R, P...>(name.options.weights ? bound : 0), bound);
  };
  if constexpr (std::is_void_v<R>) {
    add();
  } else {
    R result = clone(*static_cast<const R*>(prototype));
    call.result(result);
    add();
  }
}

template <class R, class... P, class F>
void add_to_package(PackageDraft& to, const EntryName& name, int bound, const FunctionHandle& function, const F& f,
                    std::remove_reference_t<P>&... argument) {
  LeafList arguments;
  (flatten(argument, arguments), ...);
  for (const FunctionHandle& own : functions_to_package(function, name, arguments))
    add_kernels_to_package<R, P...>(to, name, bound, function, own, f, argument...);
}

}  // namespace detail

// A function that a package holds: called as the one that was packaged. Copies share it.
template <class Signature>
class PackageFunction;
// The same: Package::function gives one. The arguments and the result are of these types.
template <class R, class... P>
class PackageFunction<R(P...)> {
  static_assert(detail::check_types<P...>() && detail::check_result<R>());

 public:
  // Runs it. Throws Error where the package holds nothing for these arguments, where it is called inside a compiled
  // function or a differentiation level, and as the function's own checks do. State is as before the call then.
  R operator()(P... argument, Loc loc = Loc::current()) const {
    detail::Call call(function_.get(), detail::SignatureOfCall<R, P...>::value, nullptr, nullptr, loc);
    (call.argument(argument, detail::access<P>), ...);
    detail::begin_package_call(call, *function_.get(), weights_.get(), loc);
    if constexpr (std::is_void_v<R>) {
      call.run();
    } else {
      R result = detail::clone(*static_cast<const R*>(call.prototype()));
      call.result(result);
      call.run();
      return result;
    }
  }

 private:
  friend class Package;
  using EntryWeights = std::shared_ptr<const detail::EntryWeights>;
  PackageFunction(detail::FunctionHandle function, EntryWeights weights)
      : function_(std::move(function)), weights_(std::move(weights)) {}
  static PackageFunction find(const std::shared_ptr<const detail::LoadedPackage>& package, const std::string& name,
                              Loc loc) {
    constexpr Access accesses[] = {detail::access<P>..., Access::input};
    detail::MakeResult make = nullptr;
    if constexpr (!std::is_void_v<R>)
      make = [](detail::ResultReader& from) -> std::shared_ptr<void> {
        auto made = std::make_shared<R>();
        detail::restore(*made, from);
        return made;
      };
    EntryWeights weights;
    detail::FunctionHandle function =
        detail::package_function(package, name, detail::SignatureOfCall<R, P...>::value,
                                 detail::types_of_call<R, P...>(), accesses, make, weights, loc);
    return {std::move(function), std::move(weights)};
  }
  using Access = detail::Access;
  detail::FunctionHandle function_;
  EntryWeights weights_;
};

// What load_package() has read. Copies share it; functions that it gave stay when it goes.
class Package {
 public:
  // The function of this name. `Signature` is that of the function that was packaged, with what was bound to it as its
  // first parameters: Tensor(const Model&, const Tensor&). Throws Error where the package has no function of the name,
  // or its types are others: the message says what both are.
  template <class Signature>
  PackageFunction<Signature> function(const std::string& name, Loc loc = Loc::current()) const {
    return PackageFunction<Signature>::find(state_, name, loc);
  }
  std::vector<std::string> names() const;  // of its functions, in the order in which they were added
  // For people: a paragraph for each kind of arguments that each function was compiled for.
  std::string describe() const;
  std::vector<std::string> weights() const;  // the names of the tensors that the file holds: "in.weight"
  // From now on these are the tensors of these names, in all functions of this package and of its copies. They are
  // replaced one function after the other, in each all at once: a call of another thread meanwhile has all of the new
  // ones or all of those before. The file stays. Throws Error, and replaces none, where the package has no weight of a
  // name, or it has another dtype or other sizes.
  void update_constants(const std::map<std::string, Tensor>& values, Loc loc = Loc::current());
  // The same of one.
  void update_constants(const std::string& name, const Tensor& value, Loc loc = Loc::current()) {
    update_constants(std::map<std::string, Tensor>{{name, value}}, loc);
  }

 private:
  friend Package load_package(const std::string& path, const struct LoadOptions& options, Loc loc);
  explicit Package(std::shared_ptr<detail::LoadedPackage> state) : state_(std::move(state)) {}
  std::shared_ptr<detail::LoadedPackage> state_;
};

// How a package is read.
struct LoadOptions {
  // Gives the bytes of the package instead of the file's own: of one that is encrypted, or lies in an archive. What it
  // throws is thrown by load_package. They are kept in memory as long as the package has weights.
  std::function<std::string(const std::string& path)> reader = {};
  // Whether weights are mapped: a page is read when it is used, and processes share it. Then the file must not be
  // written into or cut off while the package lives: a call that reads what is gone ends the process (SIGBUS). A file
  // that is given the name by a rename, as package() does, is another one. false: they are read into memory, and the
  // file is not needed afterwards. All but weights is read in any case.
  bool map_weights = true;
  // Reads all weights and holds them against their digests: else those that are damaged are taken as they are.
  bool check_weights = false;
  // Whether products and convolutions keep weights in the order in which they read them, beside the file's, from the
  // second call on. Without that each call puts them in order, and processes share all memory of weights.
  bool pack_weights = true;
};

// Reads a package, and makes all that it holds ready to run. Nothing is traced or compiled, then or later. Throws Error
// where the file can't be read or is damaged, has another format than this version of Weft reads, was made for another
// processor, or needs a library that is not here.
Package load_package(const std::string& path, const LoadOptions& options, Loc loc = Loc::current());
inline Package load_package(const std::string& path, Loc loc = Loc::current()) { return load_package(path, {}, loc); }

// What a package holds, for people: what it is for, then what Package::describe says. Reads all of it and loads none of
// its code, so it may be for another machine. Throws Error as load_package does where the file is damaged or of another
// format.
std::string describe_package(const std::string& path, const LoadOptions& options = {}, Loc loc = Loc::current());

// Several functions, or one for several kinds of arguments, for one file. Copies share what was added.
class PackageWriter {
 public:
  PackageWriter();  // of an empty package
  // Adds f under this name, compiled for these arguments, without running it. Added again under its name for other
  // arguments, it serves both: sizes may vary as f's CompileOptions and mark_dynamic say. Throws as a call of f does,
  // and Error where the package has another function of this name, or f needs the program's own code when it runs: it
  // calls the host, or reads values. With EntryOptions::weights also where it changes what is bound to it.
  template <class F, class R, class... T, class... First, class... P, class... A>
  void add(EntryName name, const Compiled<F, R, Bound<T...>, detail::TypeList<First...>, detail::TypeList<P...>>& f,
           A&&... argument) {
    f.bound().apply([&](T&... bound) {
      [&](P... given) {
        detail::add_to_package<R, First..., P...>(*draft_, name, sizeof...(First), f.function(), f.plain(), bound...,
                                                  given...);
      }(std::forward<A>(argument)...);
    });
  }
  // Of a generic callable: the arguments' types are the call's.
  template <class F, class... T, class... A>
  void add(EntryName name, const Compiled<F, void, Bound<T...>, void, void>& f, A&&... argument) {
    using R = std::remove_cvref_t<decltype(std::declval<F&>()(std::declval<T&>()..., std::declval<Plain<A>>()...))>;
    f.bound().apply([&](T&... bound) {
      detail::add_to_package<R, T&..., Plain<A>...>(*draft_, name, sizeof...(T), f.function(), f.plain(), bound...,
                                                    argument...);
    });
  }
  // Writes the file. It appears at once or not at all: where the disk is full, a file of the name stays as it was.
  void write(const std::string& path, Loc loc = Loc::current()) const;

 private:
  template <class A>  // what is moved and const is only read
  using Plain = std::conditional_t<std::is_lvalue_reference_v<A> || std::is_const_v<A>, A&, A>;
  std::shared_ptr<detail::PackageDraft> draft_;
};

// One compiled function, for these arguments, as a package: PackageWriter's add and write.
template <class... T, class... A>
void package(const std::string& path, EntryName name, const Compiled<T...>& f, A&&... argument) {
  PackageWriter writer;
  writer.add(name, f, std::forward<A>(argument)...);
  writer.write(path, name.loc);
}

// Other callables are refused. The comment is a part of what the compiler says.
template <detail::NotCompiled F, class... A>
void package(const std::string&, EntryName, F&&, A&&...) = delete;  // weft: package takes a compiled function: wrap it
                                                                    // in weft::compile
template <class... A>
void package(const std::string&, EntryName, const detail::Refused&, A&&...);  // compile() has given its sentence

}  // namespace weft
