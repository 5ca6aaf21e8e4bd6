// What autocast does to the operands of the user's call. In: an operand and the name of the function that takes it.
// Out: the operand in the type that autocast.def says. Nothing happens inside the bodies of calls and inside
// derivatives, where Recorder::autocast is f32.
#pragma once
#include "record/record.hpp"
#include "weft/autocast.hpp"

namespace weft {

enum class AutocastRule : std::uint8_t { none, low, wide, widest, loss, inside };
AutocastRule autocast_rule(std::string_view name);

// The type that a floating operand of this function has after the cast.
DType autocast_dtype(const char* operation, DType operand);

// The type of the result of a function of the rule `loss`, which is `own` without autocast.
DType autocast_loss_dtype(const char* operation, DType own);

// An operand of `operation`, which is the user's call or what that calls and lets it be.
Tensor autocast_operand(const Tensor& value, const char* operation);
// The same by the row of another function.
Tensor autocast_as(const Tensor& value, const char* row);
// A tensor that a function of the rule `widest` writes `source` into.
Tensor autocast_widest(const char* operation, const Tensor& value, const At& source);

}  // namespace weft
