// What a machine without a CUDA device does: it says what was looked for, and goes on.
#include "tests/cuda/support.hpp"
#include "weft/cuda.hpp"
#include "weft/weft.hpp"

using namespace weft;

namespace {

std::string no_device() { return cuda_test::a_device().empty() ? "there is a device" : ""; }

}  // namespace

TEST_CASE("a machine without a driver says what was looked for, with the user's line" * test::needs(no_device)) {
  std::string text;
  try {
    to(ones({2, 2}), Device::cuda());
  } catch (const Error& error) {
    text = error.what();
  }
  CHECK(text.find("[to] cuda:0 can't be used") != std::string::npos);
  CHECK(text.rfind('[') == 0);  // one prefix
  CHECK(text.find("absence_test.cpp:") != std::string::npos);
  const bool says = text.find("libcuda.so.1") != std::string::npos || text.find("finds no device") != std::string::npos;
  CHECK_MESSAGE(says, text);
  const Tensor two = ones({2}) + 1;
  CHECK((two.data<float>()[0] == 2 && two.data<float>()[1] == 2));  // the next call works
}

TEST_CASE("a device that no machine has is refused in a sentence, as one that this machine lacks") {
  for (const int index : {63, 64, 255}) {
    std::string text;
    try {
      to(ones({2, 2}), Device::cuda(index)).eval();
    } catch (const Error& error) {
      text = error.what();
    }
    CHECK_MESSAGE(text.find("can't be used") != std::string::npos, text);
    CHECK(text.find("internal") == std::string::npos);
  }
}

TEST_CASE("a machine without a driver has no devices to count, which is no error" * test::needs(no_device)) {
  CHECK(!cuda::is_available());
  CHECK(cuda::device_count() >= 0);
}

TEST_CASE("no machine has so many devices that this one is available") {
  for (const int index : {63, 64, 255}) CHECK(!cuda::is_available(Device::cuda(index)));
  CHECK(!cuda::is_available(Device::cpu()));
}

TEST_CASE("functions of weft/cuda.hpp name themselves and the user's line where there is no such device") {
  static constexpr Device beyond = Device::cuda(63);
  const auto check = [](const char* name, auto call) {
    std::string text;
    try {
      call();
    } catch (const Error& error) {
      text = error.what();
    }
    CAPTURE(text);
    CHECK(text.rfind("[" + std::string(name) + "] ", 0) == 0);
    CHECK(text.find("absence_test.cpp:") != std::string::npos);
  };
  check("synchronize", [] { cuda::synchronize(beyond); });
  check("stream", [] { cuda::stream(beyond); });
  check("Event", [] { cuda::Event event(beyond); });
  check("memory_stats", [] { cuda::memory_stats(beyond); });
  check("reset_peak_memory", [] { cuda::reset_peak_memory(beyond); });
  check("set_memory_limit", [] { cuda::set_memory_limit(1, beyond); });
  check("set_memory_limit", [] { cuda::set_memory_limit(-1); });
  check("empty_cache", [] { cuda::empty_cache(beyond); });
}

TEST_CASE("a machine without a driver has no statistics of a device's memory" * test::needs(no_device)) {
  CHECK_THROWS_AS(cuda::memory_stats(), Error);
  CHECK_THROWS_AS(cuda::set_memory_limit(1), Error);
  CHECK_THROWS_AS(cuda::Event(), Error);
}
