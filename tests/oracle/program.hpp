// Programs as calls of public functions. In: a seed. Out: a list of calls that can be replayed on tensors (eager or
// traced) and on the oracle's arrays, shortened while it fails, and printed as C++. Invariant: the same seed gives the
// same program.
#pragma once
#include <optional>
#include <random>
#include <span>

#include "oracle/semantics.hpp"
#include "weft/weft.hpp"

namespace oracle {

using weft::Tensor;

struct Argument {
  enum class Kind : std::uint8_t { value, real, whole, boolean } kind = Kind::value;
  int value = 0;  // position among the program's values: inputs first, then a call each
  double real = 0;
  std::int64_t whole = 0;
};
struct Call {
  int function = 0;  // row of functions()
  std::vector<Argument> arguments;
  std::vector<std::int64_t> numbers;
  DType dtype = DType::f32;
};
// A number of a call that is the size of a value's axis.
inline constexpr std::int64_t first_size = INT64_MIN / 2;
constexpr std::int64_t size_of(int value, int axis) { return first_size + value * 8 + axis; }
constexpr bool is_size(std::int64_t number) { return number >= first_size && number < first_size + (1 << 20); }

enum class Memory : std::uint8_t { plain, stepped, transposed, flipped, offset, expanded };
enum class Numbers : std::uint8_t { ordinary, positive, special, extreme };
// A Scalar or an Index is a 0-d value that takes the other operand's dtype. They come after the tensors.
enum class Given : std::uint8_t { tensor, scalar, index };
struct Input {
  DType dtype = DType::f32;
  Shape shape;
  Memory memory = Memory::plain;
  Numbers numbers = Numbers::ordinary;
  int alias = -1;  // the same tensor as that input
  Given given = Given::tensor;
};
struct Program {
  std::uint64_t seed = 0;
  std::vector<Input> inputs;
  std::vector<Call> calls;
  int derivative = 0;    // also gradients (1), or gradients of gradients (2), of the floating inputs
  int states = 0;        // the first inputs are state
  bool swap = false;     // the first two states change places
  int written = -1;      // the value that becomes the first state
  bool generic = false;  // holds for other sizes
  bool refused = false;  // a call is an error
};

// How a function is called and printed: $0 an argument, $* all, #0 a number, #* all from there, ? a flag, @ the dtype.
struct Function {
  const char* name;
  const char* text;
  const char* shape;  // how the generator makes its arguments
  int weight;
  Tensor (*on_tensors)(std::span<const weft::At> arguments, const std::vector<weft::Dim>& numbers, const Call& call);
  Array (*on_arrays)(const std::vector<Array>& arguments, const Shape& numbers, const Call& call);
};
const std::vector<Function>& functions();

// Other sizes: 2 becomes 2 + more, and so on. Sizes of 0 and 1 stay.
Program grown(Program program, std::int64_t more);

std::vector<Array> make_inputs(const Program& program);
Tensor make_tensor(const Array& array, Memory memory);
Array read(const Tensor& tensor);

// How many values nobody reads: a replay's first results. Gradients follow them.
int result_count(const Program& program);

// Results: values that nobody reads, then gradients. State is changed in `inputs`.
std::vector<Tensor> replay(const Program& program, std::vector<Tensor>& inputs);
std::vector<Array> replay(const Program& program, std::vector<Array>& inputs);
Array apply(const Program& program, const Call& call, const std::vector<Array>& values);

Program make_program(std::uint64_t seed);
// Without a call: what read it reads an earlier value of its type, or the program is not changed.
std::optional<Program> without(const Program& program, std::size_t call);
std::string to_text(const Program& program);

}  // namespace oracle
