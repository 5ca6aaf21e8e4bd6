#include "onnx/call.hpp"

#include <algorithm>
#include <cstring>

#include "io/file_values.hpp"
#include "onnx/program.hpp"
#include "record/record.hpp"

namespace weft::onnx {
namespace {

template <class T, class To>
void append_elements(std::span<const std::uint8_t> bytes, std::vector<To>& to) {
  for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T element;
    if constexpr (std::is_same_v<T, bool>)
      element = bytes[at] != 0;
    else
      std::memcpy(&element, bytes.data() + at, sizeof(T));
    if constexpr (!std::is_arithmetic_v<T>)
      to.push_back(static_cast<To>(static_cast<float>(element)));
    else
      to.push_back(static_cast<To>(element));
  }
}
void append_elements(DType dtype, std::span<const std::uint8_t> bytes, KnownElements& to) {
  switch (dtype) {
#define WEFT_DTYPE(name, text, bits, packing, kind, computed, accumulated, exponent, type) \
  case DType::name:                                                                        \
    if constexpr (DTypeKind::kind == DTypeKind::floating)                                  \
      return append_elements<type>(bytes, to.numbers);                                     \
    else                                                                                   \
      return append_elements<type>(bytes, to.integers);
#include "weft/dtypes.def"
#undef WEFT_DTYPE
  }
}
template <class T, class From>
std::string packed(const std::vector<From>& elements) {
  std::string bytes;
  for (const From& each : elements) {
    T element;
    if constexpr (std::is_same_v<From, Dim>)
      element = static_cast<T>(each.constant());
    else
      element = static_cast<T>(each);
    bytes.append(reinterpret_cast<const char*>(&element), sizeof element);
  }
  return bytes;
}
std::string packed(const KnownElements& from) {
  switch (from.dtype) {
#define WEFT_DTYPE(name, text, bits, packing, kind, computed, accumulated, exponent, type) \
  case DType::name:                                                                        \
    if constexpr (DTypeKind::kind == DTypeKind::floating)                                  \
      return packed<type>(from.numbers);                                                   \
    else                                                                                   \
      return packed<type>(from.integers);
#include "weft/dtypes.def"
#undef WEFT_DTYPE
  }
  return {};
}

// The elements that the bytes are, in `to`, which has their dtype.
void read_into(KnownElements& to, std::span<const std::uint8_t> bytes) {
  append_elements(to.dtype, bytes, to);
  if (std::ranges::any_of(to.integers, [](Dim each) { return each.beyond(); }))
    to.exact.assign(bytes.begin(), bytes.end());
}
DType checked_dtype(const TensorData& data, Loc loc) {
  if (!has_dtype(data.type))
    fail("onnx::Model", loc, "tensor ", data.name, " is of ", element_name(data.type), ", which is no dtype");
  return dtype_of_element(data.type);
}

Tensor copied_in(const void* bytes, DType dtype, const Shape& shape, std::size_t count, Device device, Loc loc) {
  const Tensor made = weft::detail::copy_in(bytes, dtype, shape, count, weft::detail::HostData::constant, loc);
  return device == Device::cpu() ? made : to(made, device, loc);
}
template <class T>
bool all_same(const std::vector<T>& elements) {
  for (const T& each : elements) {
    if constexpr (std::is_same_v<T, Dim>) {
      if (!each.same(elements[0])) return false;
    } else if (std::memcmp(&each, &elements[0], sizeof each) != 0) {
      return false;
    }
  }
  return !elements.empty();
}

}  // namespace

bool KnownElements::symbolic() const {
  return std::ranges::any_of(integers, [](Dim each) { return !each.is_constant(); });
}

Shape Value::shape() const {
  if (!host_) return tensor_.shape();
  Shape shape;
  for (std::int64_t size : host_->sizes) shape.push_back(size);
  return shape;
}

Tensor Value::tensor(Device device, Loc loc) const {
  if (!host_) return tensor_;
  const Options options{host_->dtype, device};
  const Shape shape = this->shape();
  if (!host_->exact.empty()) return copied_in(host_->exact.data(), host_->dtype, shape, host_->count(), device, loc);
  if (!host_->numbers.empty() && all_same(host_->numbers)) return full(shape, At(host_->numbers[0], loc), options);
  if (all_same(host_->integers)) return full(shape, At(host_->integers[0], loc), options);
  if (!host_->symbolic()) {
    const std::string bytes = packed(*host_);
    return copied_in(bytes.data(), host_->dtype, shape, host_->count(), device, loc);
  }
  std::vector<Tensor> parts;
  for (Dim each : host_->integers) parts.push_back(full({1}, At(each, loc), options));
  return reshape(At(concat(parts, 0, loc), loc), shape);
}

KnownElements known_elements(const TensorData& data, Loc loc) {
  KnownElements made{checked_dtype(data, loc), data.sizes};
  read_into(made, data.elements());
  return made;
}
KnownElements known_integers(const std::vector<std::int64_t>& elements, std::vector<std::int64_t> sizes) {
  KnownElements made{DType::i64, std::move(sizes)};
  read_into(made, {reinterpret_cast<const std::uint8_t*>(elements.data()), elements.size() * 8});
  return made;
}
Tensor constant_of(const TensorData& data, Device device, Loc loc) {
  const DType dtype = checked_dtype(data, loc);
  Shape shape;
  for (std::int64_t size : data.sizes) shape.push_back(size);
  return copied_in(data.elements().data(), dtype, shape, static_cast<std::size_t>(data.count()), device, loc);
}
KnownElements read_elements(const Tensor& tensor, Loc loc) {
  KnownElements made{tensor.dtype(loc)};
  for (Dim size : tensor.shape(loc)) made.sizes.push_back(static_cast<std::int64_t>(size));
  const io::HostElements elements(tensor, loc);
  read_into(made, elements.bytes());
  return made;
}

void Scope::set(const std::string& name, Value value) {
  if (!name.empty()) values_.insert_or_assign(name, std::move(value));
}
const Value* Scope::find(const std::string& name) const {
  const auto found = values_.find(name);
  if (found != values_.end()) return &found->second;
  return outer_ ? outer_->find(name) : nullptr;
}

const Value& NodeCall::value(std::size_t i) const {
  if (!has(i)) refuse("input ", i, " is missing");
  return inputs_[i];
}
void NodeCall::give(Value value) {
  if (value.host() && value.host()->sizes.size() > std::size_t{max_rank})
    refuse("gives ", value.host()->sizes.size(), " axes, and a tensor has at most ", max_rank);
  outputs_.push_back(std::move(value));
}
std::vector<Tensor> NodeCall::tensors(std::size_t first) const {
  std::vector<Tensor> all;
  for (std::size_t i = first; i < inputs_.size(); ++i) all.push_back(tensor(i));
  return all;
}
std::vector<Dim> NodeCall::sizes(std::size_t i) const {
  const Value& from = value(i);
  if (is_floating(from.dtype())) refuse("input ", i, " must be integers, and is ", info(from.dtype()).name);
  if (from.host()) return from.host()->integers;
  std::vector<Dim> read;
  const Tensor flat = flatten(At(from.tensor(device_, loc_), loc_));
  const auto count = static_cast<std::int64_t>(flat.size(0, loc_));
  if (count > most_known_elements) refuse("input ", i, " has ", count, " elements where sizes or places are wanted");
  for (std::int64_t at = 0; at < count; ++at) read.push_back(select(At(flat, loc_), 0, at).item<std::int64_t>(loc_));
  return read;
}
std::vector<std::int64_t> NodeCall::integers(std::size_t i) const {
  std::vector<std::int64_t> all;
  for (Dim each : sizes(i)) all.push_back(static_cast<std::int64_t>(each));
  return all;
}
std::vector<double> NodeCall::numbers(std::size_t i) const {
  const Value& from = value(i);
  if (!is_floating(from.dtype())) {
    std::vector<double> all;
    for (std::int64_t each : integers(i)) all.push_back(static_cast<double>(each));
    return all;
  }
  if (from.host()) return from.host()->numbers;
  std::vector<double> read;
  const Tensor flat = flatten(At(from.tensor(device_, loc_), loc_));
  const auto count = static_cast<std::int64_t>(flat.size(0, loc_));
  if (count > most_known_elements) refuse("input ", i, " has ", count, " elements where few numbers are wanted");
  for (std::int64_t at = 0; at < count; ++at) read.push_back(select(At(flat, loc_), 0, at).item<double>(loc_));
  return read;
}
std::int64_t NodeCall::integer_at(std::size_t i) const {
  const auto all = integers(i);
  if (all.size() != 1) refuse("input ", i, " must be one number, and has ", all.size());
  return all[0];
}
double NodeCall::number_at(std::size_t i) const {
  const auto all = numbers(i);
  if (all.size() != 1) refuse("input ", i, " must be one number, and has ", all.size());
  return all[0];
}

namespace {
const AttributeData* find(const NodeCall& call, std::string_view name, AttributeData::Kind kind) {
  const AttributeData* const found = call.node().find(name);
  if (found && found->kind != kind) call.refuse("the attribute ", name, " is of another kind than this operation has");
  return found;
}
}  // namespace
std::int64_t NodeCall::integer(std::string_view name, std::int64_t otherwise) const {
  const AttributeData* const found = onnx::find(*this, name, AttributeData::Kind::integer);
  return found ? found->integer : otherwise;
}
std::int64_t NodeCall::positive(std::string_view name, std::int64_t otherwise) const {
  const std::int64_t found = integer(name, otherwise);
  if (found < 1 || found > std::int64_t{1} << 31)
    refuse("the attribute ", name, " is ", found, ", and must be positive");
  return found;
}
double NodeCall::number(std::string_view name, double otherwise) const {
  const AttributeData* const found = onnx::find(*this, name, AttributeData::Kind::number);
  return found ? found->number : otherwise;
}
std::string NodeCall::text(std::string_view name, std::string_view otherwise) const {
  const AttributeData* const found = onnx::find(*this, name, AttributeData::Kind::text);
  return found ? found->text : std::string(otherwise);
}
std::vector<std::int64_t> NodeCall::integers(std::string_view name, std::vector<std::int64_t> otherwise) const {
  const AttributeData* const found = onnx::find(*this, name, AttributeData::Kind::integers);
  return found ? found->integers : otherwise;
}
std::vector<double> NodeCall::numbers(std::string_view name) const {
  const AttributeData* const found = onnx::find(*this, name, AttributeData::Kind::numbers);
  return found ? found->numbers : std::vector<double>();
}
std::optional<std::vector<std::int64_t>> NodeCall::integers(std::string_view name, std::size_t input) const {
  if (has(name)) return integers(name);
  if (has(input)) return integers(input);
  return {};
}
int NodeCall::checked_axis(std::int64_t axis, int rank) const {
  const std::int64_t least = -std::max(rank, 1);
  if (axis < least || axis >= std::max(rank, 1)) refuse("there is no axis ", axis, " of ", rank);
  return static_cast<int>(axis < 0 ? axis + std::max(rank, 1) : axis);
}
int NodeCall::axis(std::string_view name, std::int64_t otherwise, int rank) const {
  return checked_axis(integer(name, otherwise), rank);
}

const GraphData& NodeCall::graph(std::string_view attribute) const {
  const AttributeData* const found = onnx::find(*this, attribute, AttributeData::Kind::graph);
  if (!found) refuse("the graph ", attribute, " is missing");
  return *found->graph;
}
std::vector<Value> NodeCall::run(std::string_view attribute, std::vector<Value> inputs) const {
  const GraphData& graph = this->graph(attribute);
  if (graph.inputs.size() != inputs.size())
    refuse("the graph ", attribute, " takes ", graph.inputs.size(), " inputs, and gets ", inputs.size());
  Scope inside(&scope_);
  for (std::size_t i = 0; i < inputs.size(); ++i) inside.set(graph.inputs[i].name, std::move(inputs[i]));
  return run_graph(program_, graph, inside, device_);
}

}  // namespace weft::onnx
