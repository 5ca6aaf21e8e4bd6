// The value type of the oracle: an array of numbers that knows nothing of src/. In: sizes, a dtype, numbers. Out: the
// same after a public function, rounded to its dtype, and how to differentiate it. Invariant: floats are held as
// doubles that are values of the dtype, other dtypes as 64-bit integers in its range.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "weft/dtype.hpp"

namespace oracle {

using weft::DType;
using Shape = std::vector<std::int64_t>;
using Wide = long double;
using Integer = __int128;

// The call is an error by its documentation. `what` is the operation.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// The oracle has no answer (a second derivative that it has no rule for).
struct Undecided : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Array;
// The gradient of one operand, of the result and the result's gradient. Without data where the slope is 0 everywhere.
using Rule = std::function<Array(const Array& result, const Array& gradient)>;

struct Data {
  DType dtype = DType::f32;
  bool weak = false;  // a literal or a Scalar: takes the other operand's dtype
  Shape shape;
  std::vector<double> reals;           // of floating dtypes
  std::vector<std::int64_t> integers;  // of the others
  std::vector<Array> operands;         // those that a gradient can reach
  std::vector<Rule> rules;
  std::uint64_t serial = 0;  // greater than that of every operand
};

struct Array {
  std::shared_ptr<Data> data;
  const Data* operator->() const { return data.get(); }
  int rank() const { return static_cast<int>(data->shape.size()); }
  std::int64_t count() const;
  bool floating() const { return weft::is_floating(data->dtype); }
};

Array make(DType dtype, Shape shape);  // zeros
Array number(DType dtype, double value, bool weak = false);
Array integer(DType dtype, std::int64_t value, bool weak = false);
std::int64_t count_of(const Shape& shape);
std::string to_string(const Array& array);  // f32[2,3]

// ---- rounding -------------------------------------------------------------------------------------------------------

// The nearest value of a floating dtype, ties to even.
double round_to(DType dtype, Wide value);
// An integer as the dtype keeps it: it wraps.
std::int64_t wrap(DType dtype, Integer value);
// Of an integer: i8 to i64, not u8 to u32.
inline bool is_signed(DType dtype) { return weft::info(dtype).name[0] == 'i'; }
double largest(DType dtype);
double spacing(DType dtype, double at);  // between neighbours there
int precision(DType dtype);              // bits of the significand

// The oracle runs several times with each inexact result moved by a few roundings: how far that moves a result bounds
// what another correct implementation may give. Run 0 moves nothing.
struct Perturbation {
  std::uint64_t state = 0;
  bool active = false;
  int soft = 0;  // greater than 0: results that round once are moved too
  // Runs share no draws: one that starts a few draws after another would soon move everything as that one does.
  static Perturbation of_run(std::uint64_t seed, int run);
};
Perturbation& perturbation();
struct Soft {
  Soft() { ++perturbation().soft; }
  ~Soft() { --perturbation().soft; }
};
double draw();  // uniform in [-1, 1)
// `precise` rounded; moved if it is inexact, by up to three roundings and by `more`.
double finish(DType dtype, Wide precise, bool several, Wide more = 0);
// A value about which nothing is promised: NaN in half of the runs.
double undecided(double value);
std::int64_t undecided(DType dtype, std::int64_t value);
// A zero whose sign is not promised.
double open_zero(double value);

}  // namespace oracle
