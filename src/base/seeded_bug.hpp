// Bugs that a test build can switch on, one at a time, to show that the suite finds them. In: the environment variable
// WEFT_SEEDED_BUG, read once. Out: whether a bug is on. Invariant: without WEFT_SEEDED_BUGS, which only the tests
// define, seeded() is the constant false and nothing of this is in the library.
//
// To add one: a row here, a hook (one short condition in a .cpp file of the library), and a row of
// tests/seeded_bugs/table.txt, which names the test that finds it.
#pragma once

// name, what is then wrong
#define WEFT_SEEDED_BUG_LIST(X)                                                                              \
  X(remainder_dropped, "a % b is a without a proof that a < b")                                              \
  X(size_proof_off_by_one, "a < b is taken as proved where a <= b is")                                       \
  X(memory_limit_not_asked, "memory beyond the limit is asked of the system")                                \
  X(cse_ignores_attributes, "nodes that differ in axes, numbers or bounds are merged")                       \
  X(fold_does_not_round, "a folded constant keeps digits that its dtype has not")                            \
  X(positive_zero_vanishes, "x + 0 is x, also for -0")                                                       \
  X(permutations_composed_backwards, "two permutations become one in the wrong order")                       \
  X(inexact_cast_dropped, "a cast of a cast skips the one between, also where that one rounds")              \
  X(product_oriented_without_swap, "the transpose of a product keeps the order of its operands")             \
  X(literal_not_held, "a literal outside of its dtype's range is taken")                                     \
  X(results_of_body_reversed, "the results of a body that is taken apart come in the wrong order")           \
  X(slice_start_ignored, "a slice is read from the first element on")                                        \
  X(permute_inverted, "a permutation is read as its inverse")                                                \
  X(swapped_stride, "strides are those of the reversed shape")                                               \
  X(reshape_keeps_whole_index, "an axis that a reshape splits off is not divided out")                       \
  X(fusion_before_operand, "a node joins a kernel that runs before a library step it reads")                 \
  X(fusion_ignores_alignment, "a node joins a kernel whose reduction it reads at another index")             \
  X(fusion_mixes_reduced_axes, "reductions over different axes share a kernel")                              \
  X(value_loaded_before_stored, "a value of the same depth is read from memory before it is written")        \
  X(live_buffer_reused, "a temporary is placed over one that the same step still reads")                     \
  X(live_symbolic_buffer_reused, "the same for temporaries of symbolic size")                                \
  X(donation_ignores_index, "a result takes the memory of an argument read at another index")                \
  X(donation_ignores_later_readers, "a result takes the memory of an argument that is read again")           \
  X(donation_before_walk, "a result takes memory that the walk behind its reduction reads")                  \
  X(donation_before_check, "a result takes a state's memory before a check can fail")                        \
  X(result_aliases_argument, "a result that is an argument, or another result, gets no memory")              \
  X(concat_start_ignored, "every part of a concatenation is stored at its front")                            \
  X(window_start_ignored, "every part that is written in place is written at the front")                     \
  X(layout_ignored, "a buffer in another order is read row by row")                                          \
  X(guard_ignores_dtype, "calls with another dtype run what was compiled")                                   \
  X(guard_ignores_size, "calls with other sizes run what was compiled")                                      \
  X(guard_ignores_number, "calls with another plain number run what was compiled")                           \
  X(guard_ignores_equal_sizes, "symbolic sizes that were equal may differ")                                  \
  X(guard_ignores_least_size, "a symbolic size may be 0 or 1")                                               \
  X(guard_ignores_condition, "what was decided on a symbolic size is not asked again")                       \
  X(guard_ignores_bounds, "symbolic sizes may be too large to be counted")                                   \
  X(stale_specialization_kept, "what a check found stale is not dropped")                                    \
  X(state_not_written_back, "state keeps its old value on calls that replay")                                \
  X(state_numbers_not_written_back, "plain numbers in state keep their old value")                           \
  X(random_state_not_advanced, "the default generator draws the same numbers on each call")                  \
  X(donation_of_shared_memory, "a result is written into memory that somebody else holds")                   \
  X(shared_object_donated, "the memory of an object that is passed twice is written")                        \
  X(gradient_overwritten, "a value that is used twice gets the last gradient, not the sum")                  \
  X(expression_taken_apart_early, "a scalar expression in a trace is differentiated primitive by primitive") \
  X(tied_gradient_not_shared, "each of several largest elements gets the whole gradient")                    \
  X(matmul_gradient_not_transposed, "the gradient of a left operand is g b")                                 \
  X(concat_gradient_misplaced, "each part of a concatenation gets the front of the gradient")                \
  X(tail_dropped, "elements behind the last full vector are not computed")                                   \
  X(kept_value_never_kept, "a value that a later walk takes from a buffer is not put there")                 \
  X(strip_keeps_totals, "a strip of columns starts from the totals of the strip before")                     \
  X(rest_of_reduction_dropped, "the last, incomplete chunk of a long reduction is left out")                 \
  X(runs_not_packed, "a row of several runs is added run by run")                                            \
  X(inner_axes_reversed, "a row of several axes is walked with its first axis running fastest")              \
  X(reload_from_other_loops, "a value is reloaded from a store that stands in other loops")                  \
  X(check_not_run, "an index out of range is not refused")                                                   \
  X(unmarked_folder_cleaned, "old files are removed from a folder without our mark")                         \
  X(sizes_of_first_call_kept, "a plan runs with the sizes of its first call")

namespace weft {

enum class SeededBug {
#define WEFT_SEEDED_BUG(name, text) name,
  WEFT_SEEDED_BUG_LIST(WEFT_SEEDED_BUG)
#undef WEFT_SEEDED_BUG
};

#ifdef WEFT_SEEDED_BUGS
bool seeded(SeededBug bug);  // tests/seeded_bugs/seeded_bug.cpp
#else
constexpr bool seeded(SeededBug) { return false; }
#endif

}  // namespace weft
