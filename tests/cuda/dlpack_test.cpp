// Memory of another library on the device that begins one element after a multiple of 16 bytes: the bits of memory that
// begins at one, from what reads 16 bytes at once.
#include "weft/interop/dlpack.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "base/storage.hpp"
#include "tests/cuda/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

// A block of the device, and the struct that gives it away.
struct Foreign {
  std::unique_ptr<Storage, void (*)(Storage*)> block;
  std::vector<std::int64_t> shape;
  dlpack::ManagedTensor managed = {};
};
int given_back = 0;

// The same numbers in memory of bf16 that begins `away` elements after a multiple of 16 bytes.
Tensor given(const Tensor& x, std::uint64_t away) {
  const Tensor numbers = to(cast(x, DType::bf16), Device::cpu()).eval();
  const auto bytes = static_cast<std::size_t>(static_cast<std::int64_t>(x.element_count())) * 2;
  auto* const foreign = new Foreign{{allocate(Device::cuda(), bytes + 16), release}, {}};
  for (int axis = 0; axis < x.rank(); ++axis) foreign->shape.push_back(static_cast<std::int64_t>(x.shape()[axis]));
  const DeviceInterface& memory = device_interface(Device::Type::cuda);
  auto* const first = static_cast<char*>(foreign->block->data) + away * 2;
  memory.copy(first, Device::cuda(), numbers.data<bfloat16>().data(), Device::cpu(), bytes, nullptr);
  memory.synchronize(Device::cuda());
  foreign->managed.dl_tensor = {.data = foreign->block->data,
                                .device = {dlpack::DeviceType::cuda, 0},
                                .rank = x.rank(),
                                .dtype = {dlpack::Code::bfloat, 16, 1},
                                .shape = foreign->shape.data(),
                                .strides = nullptr,
                                .byte_offset = away * 2};
  foreign->managed.manager_ctx = foreign;
  foreign->managed.deleter = [](dlpack::ManagedTensor* self) {
    ++given_back;
    delete static_cast<Foreign*>(self->manager_ctx);
  };
  return from_dlpack(&foreign->managed);
}

template <class F>
void check_same(F f, const std::vector<Tensor>& operands) {
  const auto compiled = compile(f);
  std::vector<Tensor> aligned, away;
  const int before = given_back;
  for (const Tensor& each : operands) aligned.push_back(given(each, 0)), away.push_back(given(each, 1));
  CHECK(given_back == before + static_cast<int>(operands.size()));  // of those that were copied
  const auto are_same = [](const Tensor& a, const Tensor& b) { return all(a == b).item<bool>(); };
  const Tensor right = compiled(aligned), found = compiled(away), eager_right = f(aligned), eager = f(away);
  CHECK(are_same(found, right));
  CHECK(are_same(eager, eager_right));
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE(
    "cuda: memory of others that begins anywhere is read by attention, by gated products and element by element") {
  const auto attention = [](const std::vector<Tensor>& x) {
    return nn::scaled_dot_product_attention(x[0], x[1], x[2], {.is_causal = true});
  };
  for (const std::int64_t queries : {1, 128})
    check_same(attention, {sample({2, 4, queries, 64}, 1), sample({2, 4, 128, 64}, 2), sample({2, 4, 128, 64}, 3)});
  for (const std::int64_t rows : {16, 17})
    check_same(
        [](const std::vector<Tensor>& x) {
          return silu(matmul(x[0], transpose(x[1]))) * matmul(x[0], transpose(x[2]));
        },
        {sample({rows, 2048}, 4), sample({4104, 2048}, 5) * 0.02, sample({4104, 2048}, 6) * 0.02});
  check_same([](const std::vector<Tensor>& x) { return gelu(nn::linear(x[0], x[1], x[2]), Gelu::tanh); },
             {sample({40, 768}, 4), sample({1024, 768}, 5) * 0.02, sample({1024}, 6)});
  check_same([](const std::vector<Tensor>& x) { return x[0] * 2 + x[1]; }, {sample({3, 5}, 7), sample({3, 5}, 8)});
}

TEST_SUITE_END();
