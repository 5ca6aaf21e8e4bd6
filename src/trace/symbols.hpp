// Which sizes of a call are symbols. In: the call's leaves and words, what was compiled before, options and marks. Out:
// for each symbol the words that are it. Sizes share a symbol where they are equal, in this call and in the
// earlier ones that are looked at; marked ones where the function needs them to be equal.
#pragma once
#include "trace/call_context.hpp"

namespace weft::detail {

std::vector<Guards::Symbol> choose_symbols(const CallContext& call);
// Makes one symbol of those that the trace has found to be equal. False where there are none: else it is traced again.
bool merge_equal(std::vector<Guards::Symbol>& symbols, const Graph& traced);

// Whether an earlier call's words are laid out as this call's, so that sizes are in the same places.
bool is_comparable(const std::vector<std::uint64_t>& earlier, const CallContext& call);

// Throws the user's error where a size that is marked as dynamic became a number.
void check_marks(const CallContext& call, std::span<const Guards::Symbol> symbols, const Graph& traced);

// Puts the symbols in the places of the leaf's sizes in its type; `size`: what a symbol, by its number, is there.
// Whether one of them is symbolic.
bool symbolize(Type& type, const CallLayout& layout, std::size_t leaf, std::span<const Guards::Symbol> symbols,
               const std::function<Dim(std::size_t)>& size);

// For a line of the log: `; argument 0 (x): size of dimension 0 is symbolic from here on`. Empty if no
// size became symbolic in this call.
std::string new_symbols_text(const CallContext& call, std::span<const Guards::Symbol> symbols);

}  // namespace weft::detail
