// DLPack in and out: values, who owns the memory and until when, and what is refused.
#include "weft/interop/dlpack.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <string>

#include "base/storage.hpp"
#include "record/evaluate.hpp"
#include "weft/compile.hpp"
#include "weft/ops.hpp"

namespace weft {
namespace {

// The structs as a dlpack.h has them, under their own names.
struct DLDevice {
  int device_type;
  std::int32_t device_id;
};
struct DLDataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};
struct DLManagedTensorVersioned {
  struct {
    std::uint32_t major, minor;
  } version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned*);
  std::uint64_t flags;
  DLTensor dl_tensor;
};

// Memory of another library: 24 floats 0, 1, ... after a struct that counts its deletions.
struct Foreign {
  std::vector<float> elements = std::vector<float>(25);
  std::vector<std::int64_t> shape, strides;
  DLManagedTensor managed{};
  int deleted = 0;

  explicit Foreign(std::vector<std::int64_t> sizes, std::vector<std::int64_t> steps = {})
      : shape(std::move(sizes)), strides(std::move(steps)) {
    std::iota(elements.begin(), elements.end(), 0.0f);
    managed.dl_tensor = {elements.data(),
                         {1, 0},
                         static_cast<std::int32_t>(shape.size()),
                         {2, 32, 1},
                         shape.data(),
                         strides.empty() ? nullptr : strides.data(),
                         0};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* self) { ++static_cast<Foreign*>(self->manager_ctx)->deleted; };
  }
};
std::vector<float> values(const Tensor& x) {
  const auto elements = x.data<float>();
  return {elements.begin(), elements.end()};
}
const void* address(const Tensor& x) { return x.data<float>().data(); }

TEST_CASE("memory of others is adopted, and given back once, with the last handle") {
  Foreign foreign({2, 3});
  {
    Tensor x = from_dlpack(&foreign.managed);
    CHECK(address(x) == foreign.elements.data());
    CHECK(values(x) == std::vector<float>{0, 1, 2, 3, 4, 5});
    Tensor part = x[1];
    part.eval();
    x = Tensor();
    CHECK(foreign.deleted == 0);  // the view still reads it
    CHECK(values(part) == std::vector<float>{3, 4, 5});
  }
  CHECK(foreign.deleted == 1);
}

TEST_CASE("strides are kept where none is negative") {
  Foreign transposed({3, 2}, {1, 3});
  {
    const Tensor x = from_dlpack(&transposed.managed);
    CHECK(values(x) == std::vector<float>{0, 3, 1, 4, 2, 5});
    CHECK(transposed.deleted == 0);
    CHECK(values(matmul(transpose(x), x)) == std::vector<float>{5, 14, 14, 50});
    auto twice = compile([](const Tensor& x) { return x * 2.0 + 1.0; });
    CHECK(values(twice(x)) == std::vector<float>{1, 7, 3, 9, 5, 11});
  }
  CHECK(transposed.deleted == 1);
  Foreign repeated({2, 2}, {0, 1});
  CHECK(values(from_dlpack(&repeated.managed) + 0.0) == std::vector<float>{0, 1, 0, 1});
  Foreign one({1, 3}, {77, 1});  // the stride of an axis of size 1 means nothing
  const Tensor x = from_dlpack(&one.managed);
  CHECK(address(x) == one.elements.data());

  Foreign reversed({3}, {-1});
  reversed.managed.dl_tensor.data = reversed.elements.data() + 4;
  const Tensor copy = from_dlpack(&reversed.managed);
  CHECK(reversed.deleted == 1);
  CHECK(values(copy) == std::vector<float>{4, 3, 2});
}

TEST_CASE("a byte offset counts; misaligned elements are copied") {
  Foreign foreign({2});
  foreign.managed.dl_tensor.byte_offset = 8;
  CHECK(values(from_dlpack(&foreign.managed)) == std::vector<float>{2, 3});
  Foreign misaligned({2});
  auto* bytes = reinterpret_cast<char*>(misaligned.elements.data());
  std::memmove(bytes + 1, bytes, 16);
  misaligned.managed.dl_tensor.byte_offset = 1;
  const Tensor copy = from_dlpack(&misaligned.managed);
  CHECK(misaligned.deleted == 1);
  CHECK(values(copy) == std::vector<float>{0, 1});
  Foreign empty({0, 3});
  empty.managed.dl_tensor.data = nullptr;
  CHECK(static_cast<std::int64_t>(from_dlpack(&empty.managed).element_count()) == 0);
  CHECK(empty.deleted == 1);
}

// A CUDA device whose memory is the host's, while this lives.
class FakeDevice {
 public:
  FakeDevice() {
    log() = {};
    DeviceInterface& table = device_interface(Device::Type::cuda);
    table.allocate = [](Device device, std::size_t bytes, Queue*) {
      Storage* const storage = allocate(Device::cpu(), bytes);
      storage->device = device;
      return storage;
    };
    table.copy = [](void* to, Device, const void* from, Device, std::size_t bytes, Queue*) {
      std::memcpy(to, from, bytes);
      log() += "copy ";
    };
    table.synchronize = [](Device) { log() += "wait "; };
  }
  FakeDevice(const FakeDevice&) = delete;
  ~FakeDevice() { device_interface(Device::Type::cuda) = saved_; }
  static std::string& log() {
    static std::string text;
    return text;
  }

 private:
  DeviceInterface saved_ = device_interface(Device::Type::cuda);
};

TEST_CASE(
    "memory of a device that does not begin at a multiple of 16 bytes is copied there, once it is known to be done") {
  const FakeDevice device;
  for (const std::uint64_t offset : {0, 2, 4, 8, 16}) {
    CAPTURE(offset);
    alignas(16) float elements[12] = {};
    const float given[] = {1, 2, 3, 4};
    std::memcpy(reinterpret_cast<char*>(elements) + offset, given, sizeof given);
    Foreign foreign({2, 2});
    foreign.managed.dl_tensor.data = elements;
    foreign.managed.dl_tensor.device = {2, 0};
    foreign.managed.dl_tensor.byte_offset = offset;
    FakeDevice::log().clear();
    {
      const Tensor x = from_dlpack(&foreign.managed);
      CHECK((x.device() == Device::cuda()));
      const auto* const at = static_cast<const char*>(storage_of(x)->data);
      const bool is_copied = offset % 16 != 0;
      CHECK((at == reinterpret_cast<const char*>(elements) + offset) == !is_copied);
      CHECK(reinterpret_cast<std::uintptr_t>(at) % 16 == 0);
      CHECK(std::memcmp(at, given, sizeof given) == 0);
      CHECK(FakeDevice::log() == (is_copied ? "copy wait " : ""));
      CHECK(foreign.deleted == (is_copied ? 1 : 0));
    }
    CHECK(foreign.deleted == 1);
  }
  Foreign columns({2, 3}, {1, 2});
  columns.managed.dl_tensor.device = {2, 0};
  CHECK_THROWS_WITH_AS(from_dlpack(&columns.managed), doctest::Contains("is not in row-major order"), Error);
  CHECK(columns.deleted == 1);
}

TEST_CASE("nothing is written to memory of others") {
  Foreign foreign({4});
  const std::vector<float> before = foreign.elements;
  auto step = compile([](Tensor& x) { x = x * 3.0 + 1.0; });
  Tensor x = from_dlpack(&foreign.managed);
  step(x);
  CHECK(values(x) == std::vector<float>{1, 4, 7, 10});
  x = exp(std::move(x));
  x.eval();
  CHECK(foreign.elements == before);
  CHECK(foreign.deleted == 1);
}

TEST_CASE("out: the tensor's memory, until the deleter is called") {
  Tensor x = from_list<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  auto* managed = to_dlpack<DLManagedTensorVersioned>(x);
  CHECK(managed->version.major == 1);
  CHECK(managed->flags == 1);  // read only
  const DLTensor& view = managed->dl_tensor;
  CHECK(view.device.device_type == 1);
  CHECK(view.ndim == 2);
  CHECK(view.dtype.code == 2);
  CHECK(view.dtype.bits == 32);
  CHECK(view.dtype.lanes == 1);
  CHECK(view.data == address(x));
  CHECK(std::vector(view.shape, view.shape + 2) == std::vector<std::int64_t>{2, 3});
  CHECK(std::vector(view.strides, view.strides + 2) == std::vector<std::int64_t>{3, 1});
  auto step = compile([](Tensor& x) { x = x + 1.0; });
  step(x);  // may write over its argument only where nobody else sees it
  CHECK(values(x) == std::vector<float>{2, 3, 4, 5, 6, 7});
  x = Tensor();
  CHECK(static_cast<float*>(view.data)[5] == 6);
  managed->deleter(managed);
}

TEST_CASE("round trips of every dtype, and of what lies otherwise") {
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    CAPTURE(dtype);
    const Tensor x = cast(arange(6), dtype), y = from_dlpack(to_dlpack(x));
    CHECK(y.dtype() == dtype);
    CHECK(all(x == y).item<bool>());
    CHECK(all(x == from_dlpack(to_dlpack<dlpack::ManagedTensor>(x))).item<bool>());
  }
  const Tensor x = cast(reshape(arange(24), {2, 3, 4}), DType::f32);
  for (const Tensor& y : {permute(x, {2, 0, 1}), slice(x, 2, 1, 4, 2), x[1], flip(x, 1), sum(x)}) {
    const Tensor back = from_dlpack(to_dlpack<dlpack::ManagedTensor>(y));
    CHECK(values(back) == values(y));
  }
}

TEST_CASE("what has no counterpart is refused with a sentence, and given back") {
  const auto refused = [](auto change, const char* text) {
    CAPTURE(text);
    Foreign foreign({2, 3});
    change(foreign.managed.dl_tensor);
    CHECK_THROWS_WITH_AS(from_dlpack(&foreign.managed), doctest::Contains(text), Error);
    CHECK(foreign.deleted == 1);
  };
  refused([](DLTensor& x) { x.dtype = {5, 64, 1}; }, "no dtype has elements of code 5, 64 bits and 1 lane");
  refused([](DLTensor& x) { x.dtype.lanes = 4; }, "32 bits and 4 lanes");
  refused([](DLTensor& x) { x.dtype.bits = 8; }, "code 2, 8 bits");
  refused([](DLTensor& x) { x.device.device_type = 8; }, "on a device of type 8");
  refused([](DLTensor& x) { x.ndim = 9; }, "at most 8 axes, not 9");
  refused([](DLTensor& x) { x.shape[1] = -3; }, "axis 1 has the size -3");
  refused([](DLTensor& x) { x.data = nullptr; }, "the elements have no memory");
  CHECK_THROWS_WITH_AS(from_dlpack(static_cast<DLManagedTensor*>(nullptr)), doctest::Contains("dlpack_test.cpp:"),
                       Error);

  auto* later = to_dlpack<DLManagedTensorVersioned>(ones({2}));
  later->version.major = 2;
  CHECK_THROWS_WITH_AS(from_dlpack(later), doctest::Contains("described by version 2 of DLPack"), Error);
  CHECK_THROWS_WITH_AS(to_dlpack(Tensor()), doctest::Contains("undefined"), Error);
  static Foreign inside({2});
  auto traced = compile([](const Tensor& x) { return x + from_dlpack(&inside.managed); });
  CHECK_THROWS_WITH_AS(traced(ones({2})), doctest::Contains("in a compiled function"), Error);
  CHECK(inside.deleted == 1);
  auto given = compile([](const Tensor& x) {
    to_dlpack(x);
    return x;
  });
  CHECK_THROWS_WITH_AS(given(ones({2})), doctest::Contains("no memory to give"), Error);
}

}  // namespace
}  // namespace weft
