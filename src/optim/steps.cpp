#include "optim/steps.hpp"

#include "base/fail.hpp"
#include "record/dry_run.hpp"
#include "record/evaluate.hpp"
#include "record/indexing.hpp"
#include "record/row_gradients.hpp"

namespace weft::optim::detail {

Tensor wide(const Tensor& x) { return cast(x, computed_in(type_of(x).dtype)); }

void NewValues::set(Tensor& place, Tensor value) {
  place = place.defined() && value.dtype() != place.dtype() ? cast(value, place.dtype()) : std::move(value);
  values_.push_back(place);
}
void compute(std::span<const Tensor> values, Loc loc) {
  if (!recorder().trace() && !is_dry_run) evaluate(values, loc);
}

// ---- counts of steps -----------------------------------------------------------------------------------------------

namespace {
bool takes_none(const Parameters& parameters, std::size_t i) {
  return parameters.is_kept(i) && parameters.parameter(i).defined() && !parameters.trains(i);
}
// Where the parameters are: the numbers of all of them are a tensor, which nn::to moves with the optimizer.
Device device_of(const Parameters& parameters) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters.parameter(i).defined()) return type_of(parameters.parameter(i)).device;
  return {};
}
}  // namespace

Scalar PerParameter::operator[](std::size_t i) const {
  return Scalar(type_of(values_).shape.rank() == 0 ? values_ : select(values_, 0, static_cast<std::int64_t>(i)));
}

Buffer ones_per_parameter(const Parameters& parameters, Loc loc) {
  return ones({static_cast<std::int64_t>(parameters.size())}, {DType::f64, device_of(parameters)}, loc);
}

Buffer missed_at_first(const Parameters& parameters, Loc loc) {
  bool any = false;
  for (std::size_t i = 0; i < parameters.size(); ++i) any = any || (parameters.is_kept(i) && parameters.is_frozen(i));
  if (!any) return {};
  return zeros({static_cast<std::int64_t>(parameters.size())}, {DType::i64, device_of(parameters)}, loc);
}

StepCounts::StepCounts(const Parameters& parameters, Scalar& steps, Buffer& missed, NewValues& values, Loc loc) {
  const auto count = static_cast<std::int64_t>(parameters.size());
  std::vector<std::int64_t> absent(parameters.size());
  bool any = false;
  for (std::size_t i = 0; i < absent.size(); ++i) any = (absent[i] = takes_none(parameters, i)) || any;
  values.set(steps.tensor(), (steps + 1).tensor());
  counts_ = steps;
  if (any) {
    const Device device = device_of(parameters);
    const Tensor more = to(constant(std::span<const std::int64_t>(absent), {count}, loc), device, loc);
    absent_ = more != 0;
    values.set(missed, missed->defined() ? missed.tensor() + more : more);
  }
  if (missed->defined()) counts_ = Scalar(steps - cast(missed, DType::f64));
}
Tensor StepCounts::where_taken(const Tensor& next, const Tensor& before) const {
  return absent_.defined() ? where(absent_, before, next) : next;
}

// ---- what a step changes -------------------------------------------------------------------------------------------

// Places that name one row get one number, in the order of their rows; sums of what meets are those of the dense
// gradient, at the cost of the places.
UpdatedPart::UpdatedPart(const Tensor& gradient, bool ascends, Loc loc) : loc_(loc) {
  const std::optional<GradientRows> found = rows_of_gradient(gradient, loc);
  gradient_ = wide(found ? found->rows : gradient);
  if (ascends) gradient_ = -gradient_;
  if (!found) return;
  rows_ = found->index;
  const Type& places = type_of(rows_);
  if (places.shape[0].same(Dim(0))) return;
  const auto take = [&](const Tensor& x, const Tensor& index) { return record(Op::gather, {x, index}, {}, {}, loc); };
  const Tensor order = argsort(rows_, 0), sorted = take(rows_, order);
  const Tensor before = take(sorted, maximum(positions(0, places.shape, places.device, loc) - 1, 0));
  const Tensor numbers = cumsum(cast(sorted != before, DType::i64), 0);
  const Tensor number = update_rows(constant_like(0, places, loc), 0, order, numbers, false, loc);
  gradient_ = wide(take(record(Op::scatter_add, {number, found->rows}, {}, type_of(found->rows), loc), number));
  if (ascends) gradient_ = -gradient_;
}
Tensor UpdatedPart::of(const Tensor& whole) const {
  return wide(is_whole() ? whole : record(Op::gather, {whole, rows_}, {}, {}, loc_));
}
Tensor UpdatedPart::put_into(const Tensor& whole, const Tensor& part) const {
  return is_whole() ? part : update_rows(whole, 0, rows_, cast(part, whole.dtype()), false, loc_);
}

std::string name_of(const Parameters& parameters, std::size_t i) {
  const std::string path = parameters.path(i);
  return concat_text("parameter ", i, path.empty() ? "" : " (" + path + ")");
}
namespace {
std::string text_of_refusal(const Parameters& parameters, std::size_t i, const char* what) {
  return concat_text("the gradient of ", name_of(parameters, i), " is rows alone (sparse), and ", what,
                     " would change the others too: make the embedding dense");
}
}  // namespace
void UpdatedPart::require_zero(const Parameters& parameters, std::size_t i, const Scalar& number,
                               const char* what) const {
  if (!is_whole()) require(number.tensor() == 0, "update", loc_, text_of_refusal(parameters, i, what));
}
void UpdatedPart::require_whole(const Parameters& parameters, std::size_t i, const char* what) const {
  if (!is_whole()) fail("update", loc_, text_of_refusal(parameters, i, what));
}

void check_options(const char* optimizer, std::initializer_list<NamedNumber> amounts,
                   std::initializer_list<NamedNumber> shares, Loc loc) {
  check_numbers(optimizer, Bounds::not_negative, amounts, loc);
  check_numbers(optimizer, Bounds::share_below_one, shares, loc);
}
void require_no_momentum(const MaybeZero& momentum, Loc loc) {
  if (momentum.is_zero()) return;
  require(momentum.tensor() == 0, "update", loc,
          "the optimizer was made without a momentum and has no velocities: give one from the start");
}
void require_same_count(const Parameters& parameters, std::size_t made_for, Loc loc) {
  if (made_for == parameters.size()) return;
  fail("update", loc, "the optimizer was made for a model of ",
       counted(static_cast<std::int64_t>(made_for), "parameter", "parameters"), ", this one has ", parameters.size());
}
void require_same_model(const Parameters& parameters, std::span<const Buffer> state, Loc loc) {
  require_same_count(parameters, state.size(), loc);
  for (std::size_t i = 0; i < state.size(); ++i)
    if (state[i].tensor().defined()) require_same_shape(parameters, i, type_of(state[i].tensor()).shape, loc);
}
void require_same_shape(const Parameters& parameters, std::size_t i, const Shape& made_for, Loc loc) {
  const Tensor& parameter = parameters.parameter(i);
  if (!parameter.defined() || type_of(parameter).shape == made_for) return;
  fail("update", loc, "the optimizer was made for another model: ", name_of(parameters, i), " was ",
       to_string(made_for), ", is ", to_string(type_of(parameter).shape));
}

}  // namespace weft::optim::detail

namespace weft::optim {

StochasticRounding::StochasticRounding(const std::optional<std::uint64_t>& seed, Loc loc) {
  if (seed) state_ = from_list<std::int64_t>({static_cast<std::int64_t>(*seed), 0}, {2}, loc);
}

// Random bits are added to those that are cut off: a carry rounds away from zero, with the chance that they say.
Tensor StochasticRounding::round(const Tensor& value, DType dtype, Loc loc) {
  if (!state_.tensor().defined() || dtype != DType::bf16) return value;
  LooseComposite call("stochastic_rounding", loc);
  const Tensor state = state_, wide = cast(value, DType::f32);
  const Type& type = type_of(wide);
  const Tensor random = record(Op::random_bits, {select(state, 0, 0), select(state, 0, 1)}, {},
                               Type{DType::i32, false, type.device, type.shape}, call.loc());
  const Tensor kept = (bitcast(wide, DType::i32) + (random & 0xffff)) & -0x10000;
  state_ = state + arange(2);  // seed + 0, offset + 1
  return cast(where(isfinite(wide), bitcast(kept, DType::f32), wide), dtype);
}

}  // namespace weft::optim
