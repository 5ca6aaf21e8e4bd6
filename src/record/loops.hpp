// The body of a loop, or of vmap, while it is recorded. In: what is recorded while one of these lives. Out: a graph
// over explicit inputs, then inputs for what the body uses of the traces around it, which are operands of the loop
// (closure conversion). Composites stay calls in it. Sizes are those of the trace around it.
#pragma once
#include <optional>

#include "record/record.hpp"

namespace weft {

// What the operations of a body carry, unless they have their own: a line, the name of a public function for errors, a
// composite. `recorded_around` is that of the code that calls a function with a body, before that function's Operation.
struct BodyPlace {
  Loc loc = {};
  const char* operation = nullptr;
  std::uint32_t scope = 0;
};
inline BodyPlace recorded_around() { return {recorder().loc, called_operation(), recorder().scope}; }

class LoopBody {
 public:
  enum class Of : std::uint8_t { iteration, example };
  // Its inputs get the location `call`, the user's line of the loop.
  explicit LoopBody(const BodyPlace& place, Loc call = {}, Of of = Of::iteration);
  // Also when an exception passes: generators hold what they held before.
  ~LoopBody();
  LoopBody(const LoopBody&) = delete;

  std::uint32_t id() const { return trace_.id; }
  Tensor input(const Type& type);
  // Returns to the trace around. The functions below are called after it.
  void close();

  // Values of the trace around that the body uses, and the body's input for one of them; undefined where it does not
  // use it.
  std::span<const Tensor> captured() const { return trace_.captured; }
  Tensor input_of(const Tensor& captured) const;
  // The generators that the body draws from.
  struct GeneratorUse {
    Tensor* state;  // where it is kept; null: the default generator
    Tensor before, input, after;
  };
  std::vector<GeneratorUse>& generators() { return generators_; }
  // Adds the captured values to the operands of what has the body, and the body's inputs for them to its inputs.
  void append_captured(std::vector<Tensor>& operands, std::vector<Tensor>& inputs) const;

  // With these inputs, in this order. Nothing else of the body may be held.
  std::shared_ptr<const Graph> take(std::vector<Tensor> inputs, std::vector<Tensor> outputs);

 private:
  const Loc call_;
  const Of of_;
  Trace trace_;
  std::optional<TraceScope> inside_;
  std::vector<GeneratorUse> generators_;
};

// Whether a body that this thread records is that of vmap: for errors.
bool is_example_body(std::uint32_t trace);
// A value that is read while the body of vmap is recorded, and is the same for all examples: until the end of the block
// that body is left, and the value is of the trace around it. False of all else.
class SharedByExamples {
 public:
  explicit SharedByExamples(const Tensor& value);
  ~SharedByExamples() { enter(); }
  SharedByExamples(const SharedByExamples&) = delete;
  explicit operator bool() const { return body_; }
  const Tensor& value() const { return value_; }

 private:
  void enter();

  Trace* body_ = nullptr;
  Tensor value_;
};

// Throws where somebody besides the graph holds a value of a body: an object that the function captures and writes.
void refuse_held(const Graph& body, const char* operation, Loc loc, const char* advice);

// The body of a scan with so many carries: what runs once in it (ir/host_function.hpp) is among what the scan stacks,
// so that a derivative reads it there. Added to `types`: those of the results that this adds.
std::shared_ptr<const Graph> with_stacks_of_host(std::shared_ptr<const Graph> body, const Scan& scan,
                                                 std::vector<Type>& types);

// Outside a trace: whoever evaluates the scan `loop` runs `longer` instead, which extends it (Node::More::extends), so
// that both are run once. Nothing happens where `loop` has its value already.
void compute_by(const Tensor& loop, const Tensor& longer);

// [length, sizes...], which a loop stacks, and what it slices.
Type stacked(Type type, Dim length);
Type slice_of(Type type);

}  // namespace weft
