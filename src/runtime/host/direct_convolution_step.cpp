#include "base/member_count.hpp"
#include "runtime/host/direct_convolution.hpp"
#include "runtime/steps.hpp"

namespace weft::runtime {

HostConvolution::HostConvolution(ConvolutionDims dims, std::span<const Dim> offsets, NumberTable& numbers)
    : dims_(std::move(dims)), values_(numbers.add(dims_.dims())), offsets_(numbers.add(offsets)) {
  if (!offsets[1].is_constant()) return;
  weight_offset_ = offsets[1].constant();
  std::vector<std::int64_t> values;  // what is a symbol is no weight's
  for (const Dim dim : dims_.dims()) values.push_back(dim.is_constant() ? dim.constant() : 1);
  const ConvolutionSizes sizes = dims_.with(values);
  const auto first = static_cast<std::size_t>(dims_.dims().size()) - static_cast<std::size_t>(sizes.axes) - 2;
  for (const Dim stride : dims_.dims().subspan(first))
    if (!stride.is_constant()) return;
  if (sizes.is_sound() && DirectConvolution::lies_well(sizes)) weights_ = sizes;
}

bool HostConvolution::fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const {
  const ConvolutionSizes now = sizes(numbers);
  return convolution_fits(now, numbers.subspan(offsets_.begin, offsets_.count), rooms) &&
         DirectConvolution::takes(now) && DirectConvolution::lies_well(now);
}

void HostConvolution::run_packed(const StepCall& call, const std::byte* const* packed) const {
  of(call.numbers).run(place(call, 0), place(call, 1), place(call, 2), call.workspace, packed ? packed[1] : nullptr);
}

std::size_t HostConvolution::packed_bytes(std::size_t buffer) const {
  return buffer == 1 && weights_ ? DirectConvolution(*weights_).packed_bytes() : 0;
}
Digest HostConvolution::packed_as(std::size_t) const {
  FieldWriter fields;
  fields(std::string(StoredDirectConvolution::name), weights_->outputs, weights_->inputs, weights_->kernel,
         weights_->weight_strides[0], weight_offset_);
  return digest(fields.bytes());
}
void HostConvolution::pack(std::size_t buffer, const StepCall& call, std::byte* to) const {
  DirectConvolution(*weights_).pack(place(call, buffer), to);
}

static_assert(lists_all<DirectConvolutionFields>, "a member is not in fields()");

void StoredDirectConvolution::check() const {
  if (!what.dims.is_sound() || what.offsets.size() != 3) throw Malformed();
  std::vector<std::int64_t> any(what.dims.dims().size(), 1);
  if (!DirectConvolution::takes(what.dims.with(any))) throw Malformed();
}

const NamedStep steps::direct_convolution{StoredDirectConvolution::name, StoredDirectConvolution::read};

}  // namespace weft::runtime
