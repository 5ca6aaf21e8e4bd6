// cuBLASLt stores matrices by columns, and multiplies 8-bit floats only where the left one is transposed and the right
// one is not: c^T = (b^T)^T a^T, of which b^T and a^T as the library thinks are b and a as they lie.
#include "runtime/cuda/scaled_product.hpp"

#include <map>
#include <mutex>

#include "base/fail.hpp"
#include "base/log.hpp"
#include "runtime/cuda/blas.hpp"
#include "runtime/cuda/per_device.hpp"

namespace weft::runtime::cuda {
namespace {

// Numbers of cublasLt.h and library_types.h.
constexpr int compute_f32 = 68, type_f32 = 0, type_f16 = 2, type_bf16 = 14, type_f8e4m3 = 28, type_f8e5m2 = 29;
constexpr int description_transpose_a = 3, description_epilogue = 7, description_bias = 8, description_a_scale = 17,
              description_b_scale = 18, description_bias_type = 26, description_a_mode = 31, description_b_mode = 32;
constexpr std::uint32_t epilogue_none = 1, epilogue_bias = 4;
constexpr std::int32_t scales_of_rows = 3;  // OUTER_VEC_32F
constexpr int preference_workspace = 1;

int type_of(DType dtype) {
  switch (dtype) {
    case DType::f8e4m3: return type_f8e4m3;
    case DType::f8e5m2: return type_f8e5m2;
    case DType::f16: return type_f16;
    case DType::bf16: return type_bf16;
    default: return type_f32;
  }
}

// Kept for the life of the process: as many as there are products.
struct Choice {
  bool exists = false;
  BlasDescription* description = nullptr;
  BlasLayout *left = nullptr, *right = nullptr, *result = nullptr;
  BlasAlgorithm algorithm;
};

template <class T>
int set(const Choice& choice, int attribute, const T& value) {
  return blas().cublasLtMatmulDescSetAttribute(choice.description, attribute, &value, sizeof value);
}

BlasLayout* make_layout(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t leading) {
  BlasLayout* layout = nullptr;
  check_blas(blas().cublasLtMatrixLayoutCreate(&layout, type_of(dtype), static_cast<std::uint64_t>(rows),
                                               static_cast<std::uint64_t>(columns), leading),
             "cublasLtMatrixLayoutCreate");
  return layout;
}

Choice make(BlasHandle* handle, const ScaledProduct& p) {
  Choice choice;
  check_blas(blas().cublasLtMatmulDescCreate(&choice.description, compute_f32, type_f32), "cublasLtMatmulDescCreate");
  check_blas(set(choice, description_transpose_a, std::int32_t{1}), "transpose a");
  check_blas(set(choice, description_epilogue, p.has_bias ? epilogue_bias : epilogue_none), "epilogue");
  if (p.has_bias) check_blas(set(choice, description_bias_type, std::int32_t{type_of(p.result)}), "bias");
  // A library that is too old for scales of rows knows no such attribute.
  if (p.by_rows)
    for (const int mode : {description_a_mode, description_b_mode})
      if (set(choice, mode, scales_of_rows) != 0) return choice;
  // The heuristic wants pointers; it reads nothing.
  const void* const anywhere = reinterpret_cast<const void*>(std::uintptr_t{256});
  for (const int scale : {description_a_scale, description_b_scale}) check_blas(set(choice, scale, anywhere), "scale");
  if (p.has_bias) check_blas(set(choice, description_bias, anywhere), "bias");
  choice.left = make_layout(p.b, p.k, p.n, p.b_row);
  choice.right = make_layout(p.a, p.k, p.m, p.a_row);
  choice.result = make_layout(p.result, p.n, p.m, p.n);
  BlasPreference* preference = nullptr;
  check_blas(blas().cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  const std::uint64_t bytes = product_workspace_bytes;
  blas().cublasLtMatmulPreferenceSetAttribute(preference, preference_workspace, &bytes, sizeof bytes);
  BlasHeuristic found{};
  int count = 0;
  const int status = blas().cublasLtMatmulAlgoGetHeuristic(handle, choice.description, choice.left, choice.right,
                                                           choice.result, choice.result, preference, 1, &found, &count);
  blas().cublasLtMatmulPreferenceDestroy(preference);
  choice.exists = status == 0 && count > 0 && found.state == 0;
  choice.algorithm = found.algorithm;
  return choice;
}

struct Choices {
  std::mutex mutex;
  std::map<ScaledProduct, Choice> all;

  static Choices& of(const DeviceState& device) {
    static constinit PerDevice<Choices> of_devices;
    return of_devices.of(device.device);
  }
  const Choice& find(DeviceState& device, const ScaledProduct& product) {
    BlasHandle* const handle = product_handle(device);
    const std::lock_guard lock(mutex);
    const auto found = all.find(product);
    return found != all.end() ? found->second : all.emplace(product, make(handle, product)).first->second;
  }
};

}  // namespace

bool has_scaled_product(Device device, const ScaledProduct& product) {
  DeviceState* const state = find_device(device);
  if (!state || !state->has(DeviceInstruction::mma_float8)) return false;
  try {
    return Choices::of(*state).find(*state, product).exists;
  } catch (const Error& reason) {
    if (logging::enabled(logging::Channel::kernels))
      logging::write(logging::Channel::kernels, concat_text("no scaled product by cuBLASLt: ", reason.what()));
    return false;
  }
}

DeviceScaledProduct::DeviceScaledProduct(const ScaledProduct& product, std::span<const Dim> offsets,
                                         const Preparation& preparation)
    : product_(product), device_(use(preparation.device)), offsets_(preparation.numbers.add(offsets)) {}

void DeviceScaledProduct::run(const StepCall& call) const {
  const std::span<const std::int64_t> offsets = call.part(offsets_);
  const auto at = [&](std::size_t i, DType dtype) {
    return static_cast<std::byte*>(call.pointers[i]) + offsets[i] * static_cast<std::int64_t>(storage_bytes(dtype, 1));
  };
  const std::size_t last = product_.has_bias ? 5 : 4;
  const void *const a = at(0, product_.a), *const b = at(1, product_.b);
  const void *const a_scale = at(2, DType::f32), *const b_scale = at(3, DType::f32);
  void* const result = at(last, product_.result);
  void* const workspace = product_workspace(device_, call.queue);
  BlasHandle* const handle = product_handle(device_);
  Choices& choices = Choices::of(device_);
  const Choice& choice = choices.find(device_, product_);
  // The description is shared by all products of its kind, and holds the places of scales and bias.
  const std::lock_guard lock(choices.mutex);
  check_blas(set(choice, description_a_scale, b_scale), "scale");
  check_blas(set(choice, description_b_scale, a_scale), "scale");
  if (product_.has_bias) {
    const void* const bias = at(4, product_.result);
    check_blas(set(choice, description_bias, bias), "bias");
  }
  const float one = 1, zero = 0;
  const std::lock_guard whole(device_.in_one_piece);
  check_blas(blas().cublasLtMatmul(handle, choice.description, &one, b, choice.left, a, choice.right, &zero, result,
                                   choice.result, result, choice.result, &choice.algorithm, workspace,
                                   product_workspace_bytes, call.queue->stream),
             "cublasLtMatmul");
}

}  // namespace weft::runtime::cuda
