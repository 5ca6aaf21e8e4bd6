// What the words of a call tell apart that no test without a GPU can make tensors of.
#include "trace/call_layout.hpp"

#include "tests/trace/support.hpp"

using namespace weft;
using namespace weft::detail;
using namespace trace_test;

namespace {

struct Key {
  Tensor value;
  LeafList leaves;
  Words words;
};

const TypeDescription* const arguments[] = {&Description<Tensor>::value};
const CallSignature signature{arguments, 1, nullptr};

void encode_tensor_on(Device device, Key& key) {
  key.value = make_node(Op::data, {}, {}, Type{DType::f32, false, device, Shape::of(2, 3)}, {});
  flatten(key.value, key.leaves);
  encode(signature, key.leaves, key.words, {});
}
std::string change(const Key& from, const Key& to) {
  std::vector<std::uint64_t> earlier(from.words.data(), from.words.data() + from.words.size);
  return difference(CallLayout(signature, to.leaves, to.words), earlier, {}, to.words).text;
}

}  // namespace

TEST_CASE("the device is in the key: its type alone, and its number alone") {
  Key host, again, first, second;
  encode_tensor_on(Device::cpu(), host);
  encode_tensor_on(Device::cpu(), again);
  encode_tensor_on(Device::cuda(0), first);
  encode_tensor_on(Device::cuda(1), second);
  CHECK(change(host, again) == "");
  CHECK(contains(change(host, first), "device was cpu, is cuda:0"));
  CHECK(contains(change(first, host), "device was cuda:0, is cpu"));
  CHECK(contains(change(first, second), "device was cuda:0, is cuda:1"));
  REQUIRE(host.words.size == first.words.size);
  int different = 0;
  for (std::size_t i = 0; i < host.words.size; ++i) different += host.words.data()[i] != first.words.data()[i];
  CHECK(different == 1);
}
