// Functions that people write (norms, losses, attention, sorts, ...) with random sizes and dtypes. In: a seed. Out: a
// function that runs on tensors of any device, traced or eagerly. Invariant: the same seed gives the same function.
#pragma once
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "weft/weft.hpp"

namespace fuzz {

using weft::DType;
using weft::Tensor;

struct Input {
  // normal: about 0; positive: 0.5 to 2; integer: -20 to 20, or 0 to 40; index: 0 to below - 1; special: normal numbers
  // with NaN, infinities, zeros of both signs and equal elements among them
  enum class Kind : std::uint8_t { normal, positive, integer, index, boolean, special };
  std::vector<std::int64_t> sizes;
  DType dtype = DType::f32;
  Kind kind = Kind::normal;
  std::int64_t below = 0;
};

// What a function returns. `close`: rounded on the way. `exact`: no rounding, so all devices agree to the bit.
struct Results {
  std::vector<Tensor> close, exact;
};

struct Family;
struct Function {
  std::uint64_t seed = 0;
  const Family* family = nullptr;
  std::vector<std::int64_t> numbers;  // what the family's body reads: axes, options, steps
  std::vector<Input> inputs;
  bool gradient = false;  // also the gradients of a weighted sum of the close results
};

// Draws sizes, dtypes and options.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15ull + 1) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  bool one_in(std::int64_t n) { return below(n) == 0; }
  template <class T>
  T any(std::initializer_list<T> of) {
    return of.begin()[below(static_cast<std::int64_t>(of.size()))];
  }
  // Mostly a power of two or a neighbour of one, at most `most`.
  std::int64_t size(std::int64_t most);
  // Rows and columns of at most `most` elements in all.
  std::vector<std::int64_t> matrix(std::int64_t most);
  DType floating() {
    return any({DType::f32, DType::f32, DType::f32, DType::bf16, DType::bf16, DType::f16, DType::f64});
  }
  DType integer() { return any({DType::i32, DType::i64, DType::i16, DType::u8, DType::i8, DType::u16, DType::u32}); }

 private:
  std::mt19937_64 random_;
};

struct Family {
  const char* name;
  int weight;  // how often it is drawn
  void (*draw)(Draw& draw, Function& function);
  Results (*body)(std::span<const std::int64_t> numbers, std::span<const Tensor> x);
};
// Those of each file.
std::span<const Family> families_of_rows();
std::span<const Family> families_of_contractions();
std::span<const Family> families_of_positions();

Function make_function(std::uint64_t seed);
std::string to_text(const Function& function);
// The values of its inputs, on the host; another set for each `set`.
std::vector<Tensor> inputs_of(const Function& function, std::uint64_t set);

}  // namespace fuzz
