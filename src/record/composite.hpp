// Composites: public functions that are made of others and recorded as one call. In: a name and its numbers, operands,
// and a function that records the body. Out: a node of Op::call, whose body is recorded once for a signature and shared
// by all calls of it: by those of the process where sizes are numbers, else by those of the trace, whose guards hold
// what was decided on sizes. Inside a body a composite is its own body: nobody takes it from there.
#pragma once
#include <initializer_list>

#include "ir/callee.hpp"
#include "ir/composites.hpp"
#include "record/record.hpp"

namespace weft {

// What tells bodies apart, as words. Those of a usual call lie in the object; calls of hundreds of operands allocate.
class Signature {
 public:
  explicit Signature(std::uint64_t kind) { add(kind); }
  void add(std::uint64_t word);
  void add(const Attributes& called);
  void add(const Type& type);
  bool symbolic() const { return symbolic_; }
  std::span<const std::uint64_t> words() const { return all_.empty() ? std::span(words_, count_) : std::span(all_); }

 private:
  static constexpr std::size_t capacity = 32 * (max_rank + 2);
  std::size_t count_ = 0;
  bool symbolic_ = false;
  std::uint64_t words_[capacity];
  std::vector<std::uint64_t> all_;  // empty while they fit
};

// A function of operands and results that lives while it is called.
class RecordBody {
 public:
  template <class F>
  RecordBody(const F& f)
      : context_(&f), call_([](const void* context, std::span<const Tensor> operands, std::span<Tensor> results) {
          (*static_cast<const F*>(context))(operands, results);
        }) {}
  void operator()(std::span<const Tensor> operands, std::span<Tensor> results) const {
    call_(context_, operands, results);
  }

 private:
  const void* context_;
  void (*call_)(const void*, std::span<const Tensor>, std::span<Tensor>);
};

// The body of a call while it is recorded; that of a loop is in record/loops.hpp. While it lives, what the thread
// records is the body's: over inputs of its own, and with the sizes of the trace around it. All calls of the signature
// share the body, so it is the same whoever asked first: its scope is the callee's name, and it has neither lines nor
// regions, and nothing in it is cast by autocast. Errors that are thrown meanwhile name the user's line. Inlining gives
// the nodes the call's line, scope and region (ir/callee.hpp).
class CallBody {
 public:
  explicit CallBody(const Attributes& called);
  ~CallBody();
  Tensor input(const Type& type);  // the next
  void drop_checks();              // which the call that is differentiated has made before
  Graph take(std::vector<Tensor> results);

 private:
  const Loc loc_;
  DimEnvironment* const sizes_;
  const char* const operation_;
  Trace trace_;
  TraceScope inside_;
};
inline bool in_body() { return recorder().in_body; }

// The callee of a signature; `make` records it where nobody has yet.
std::shared_ptr<const Callee> find_callee(const Signature& signature);
std::shared_ptr<const Callee> keep_callee(const Signature& signature, Callee made);
template <class Make>
std::shared_ptr<const Callee> shared_callee(const Signature& signature, Make make) {
  std::shared_ptr<const Callee> known = find_callee(signature);
  return known ? known : keep_callee(signature, make());
}

// A call: result i is output i of the node. A body with effects is an effect of the trace; outside a trace it runs at
// once. A scalar expression that the host has a kernel for is given as well.
Tensor record_call(std::shared_ptr<const Callee> callee, std::span<const Tensor> operands, Loc loc,
                   const ElementwiseDefinition* definition = nullptr);

// A composite without numbers.
inline Called called(std::string_view name) { return {{intern_text(name)}}; }

// The results of the composite. `record` depends on `called` and the types of its operands alone; arguments are checked
// before. Inside another body the derivative is that of the primitives.
void composite(const Attributes& called, std::span<Tensor> operands, std::span<Tensor> results, Loc loc,
               RecordBody record, CallDerivative derivative = nullptr);
// With one result, of a function over the operands, and a derivative of its own.
template <class F, std::same_as<Tensor>... Operands>
Tensor composite_with(CallDerivative derivative, const Attributes& called, Loc loc, F f, Operands... operands) {
  Tensor list[] = {std::move(operands)...}, result;
  const auto record = [&f](std::span<const Tensor> inputs, std::span<Tensor> results) {
    [&]<std::size_t... i>(std::index_sequence<i...>) { results[0] = f(inputs[i]...); }
    (std::index_sequence_for<Operands...>());
  };
  composite(called, list, std::span(&result, 1), loc, record, derivative);
  return result;
}
// And without one.
template <class F, std::same_as<Tensor>... Operands>
Tensor composite(const Attributes& called, Loc loc, F f, Operands... operands) {
  return composite_with(nullptr, called, loc, f, std::move(operands)...);
}

// Inside a composite 16-bit floats are f32, and are rounded once at its end; integers become f32.
template <class F>
Tensor in_wide(const Tensor& value, F compute) {
  const DType dtype = type_of(value).dtype, wide = is_floating(dtype) ? computed_in(dtype) : DType::f32;
  if (dtype == wide) return compute(value);
  const Tensor result = compute(cast(value, wide));
  return is_floating(dtype) ? cast(result, dtype) : result;
}

}  // namespace weft
