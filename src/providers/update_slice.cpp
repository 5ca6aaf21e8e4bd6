#include "codegen/cuda_functions.hpp"
#include "providers/update_payload.hpp"
#include "runtime/cuda/steps.hpp"
#include "runtime/host/steps.hpp"
#include "schedule/slices.hpp"

namespace weft::providers {

namespace {

runtime::SliceUpdate update_of(const Candidate& candidate) {
  const Shape &whole = candidate.result().type.shape, &part = candidate.operands[1].type.shape;
  const int axis = candidate.node.attributes<Along>().axis;
  runtime::SliceUpdate update;
  for (int i = 0; i < axis; ++i) update.outer = update.outer * whole[i];
  for (int i = axis + 1; i < whole.rank(); ++i) update.inner = update.inner * whole[i];
  update.size = whole[axis], update.length = part[axis];
  update.element = storage_bytes(info(candidate.result().type.dtype), std::int64_t{1});
  for (const PlacedValue& operand : candidate.operands) update.offsets.push_back(operand.offset);
  return update;
}

class SlicePayload final : public UpdatePayload<SlicePayload, runtime::StoredSliceUpdate>, public UpdatesSlice {
 public:
  using OnDevice = runtime::cuda::DeviceUpdate;
  explicit SlicePayload(const Candidate& candidate)
      : UpdatePayload(runtime::StoredSliceUpdate(update_of(candidate)), candidate),
        dtype_(candidate.result().type.dtype) {}
  std::string details() const override {
    return (stored_.what.length.same(Dim(0)) ? ", but for the slice, which a kernel writes" : "") +
           UpdatePayload::details();
  }
  runtime::EntryPoint emit(Sources& sources) const override {
    return stored_.what.length.same(Dim(0)) ? runtime::EntryPoint() : UpdatePayload::emit(sources);
  }
  const runtime::SliceUpdate& slice() const override { return stored_.what; }
  std::shared_ptr<const Payload> without_slice(std::vector<int>& buffers) const override {
    buffers[1] = buffers[2];  // it reads no update
    auto rest = std::make_shared<SlicePayload>(*this);
    rest->stored_.what.length = rest->stored_.what.offsets[1] = 0;
    rest->buffers_ = buffers;
    return rest;
  }
  codegen::CudaFunction function(bool checked) const { return codegen::cuda_update_slice(dtype_, checked); }

 private:
  DType dtype_;
};

}  // namespace

const Provider& update_slice() {
  static constinit const UpdateProvider<SlicePayload, Op::update_slice> provider;
  return provider;
}

}  // namespace weft::providers
