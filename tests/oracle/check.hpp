// Holds eager, compiled and dynamically compiled calls of a program against the oracle and against each other. In:
// programs. Out: for each, what differs, or nothing. The bound follows from the program: the oracle runs again with
// each inexact result moved by a few roundings, and an executor may differ by 8 times as far as that moves a result.
// What moving does not change must agree exactly, and executors agree to the bit where docs/numerics.md promises it.
#pragma once
#include <map>
#include <string>

#include "oracle/program.hpp"

namespace oracle {

struct Statistics {
  int programs = 0, refused = 0, unknown = 0, gradients = 0, states = 0, compiled = 0, dynamic = 0, grown = 0;
  std::int64_t exact = 0, bounded = 0, undecided = 0;
  std::map<std::string, int> calls;
};

// Compiling costs most of the time. `share` 0: every program is compiled for its sizes and dynamically. Otherwise one
// in `share` is compiled, in turn for its sizes and dynamically; the others are held against the oracle eagerly.
std::vector<std::string> check(const std::vector<Program>& programs, Statistics* statistics = nullptr, int share = 0);

// Checks programs of these seeds; fails the running test with the seed, the shrunk program, and the command that runs
// it again. WEFT_ORACLE_SEED=seed, first-last or first-last/share runs those seeds instead; without a share, every
// program is compiled.
Statistics check_programs(std::uint64_t first, int count, int share);
void check_coverage(const Statistics& statistics);

}  // namespace oracle
