// Holds the executors against each other on one program. In: programs. Out: for each, what differs, or nothing.
// The bound is derived, not chosen: the reference is run again several times with every inexact result moved by a few
// roundings; an executor may differ by a small multiple of how far that moves the outputs. Where moving flips a
// comparison or makes a NaN, nothing can be said of that element.
#pragma once
#include <map>
#include <random>
#include <set>
#include <string>

#include "interpret/reference.hpp"
#include "random/program.hpp"
#include "weft/compile_options.hpp"

namespace weft::testing {

struct Statistics {
  int programs = 0, reductions = 0, views = 0, gradients = 0, states = 0, returning = 0, symbolic_again = 0;
  std::int64_t compared = 0, undecided = 0;
  std::set<Op> ops;
};

// What the reference gives, and how far moved roundings move it at most: NaN where nothing can be said.
struct Expected {
  std::vector<Literal> values, spread;
};
// With every rounding moved in each of `runs`. A few show what a program does with roundings nearly always; what only
// one moved rounding in many brings about, a value that comes to lie on a jump, takes more.
inline constexpr std::uint64_t few_runs = 8, many_runs = 256;
Expected expect(const Graph& graph, std::span<const Literal> inputs, std::span<const std::int64_t> symbols,
                std::uint64_t runs = few_runs);
// What differs by more than that, or nothing.
std::string compare(const char* executor, const Expected& expected, const std::vector<Literal>& got,
                    Statistics& statistics);

Literal random_input(const ProgramInput& input, std::mt19937_64& random);
Tensor tensor_of(const Literal& value);
Literal literal_of(const Tensor& value);

// Empty where all executors agree: compiled with static sizes, with symbolic sizes, with donated memory; eager.
// Kernels of all programs are compiled together.
std::vector<std::string> check(const std::vector<Program>& programs, Statistics* statistics = nullptr,
                               Level level = Level::O2);

// Makes and checks `count` programs from `seed` on; fails the running test with the shrunk program where one differs.
Statistics check_random_programs(std::uint64_t seed, int count, Level level = Level::O2);

// Fails the running test unless the run has covered nearly all of the table, and enough of what fusion and memory
// planning find hard.
void check_coverage(const Statistics& statistics);

}  // namespace weft::testing
