// failed_checks DRIVER: whom a failed check of a device is told, by calls of several threads. DRIVER is the path of the
// stand-in (bench/no_gpu), of which a thread asks that the checks fail that it launches. Ends with 0 when all is right.
#include <dlfcn.h>

#include <cstdio>
#include <string>
#include <thread>
#include <weft/cuda.hpp>
#include <weft/weft.hpp>

using namespace weft;

namespace {

void (*fail_checks)(int) = nullptr;
int wrong = 0;

void require(bool right, const std::string& what) {
  if (right) return;
  std::fprintf(stderr, "%s\n", what.c_str());
  ++wrong;
}

template <class Work>
std::string error_of(Work work) {
  try {
    work();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}
void require_told(const std::string& error, const std::string& who) {
  require(error.find("an index is out of range") != std::string::npos, who + " is told: " + error);
}
void require_nothing(const std::string& error, const std::string& who) {
  require(error.empty(), who + " is told: " + error);
}
template <class Work>
void in_a_thread(Work work) {
  std::thread(work).join();
}

auto& look_up = *new auto(compile([](const Tensor& table, const Tensor& index) { return gather(table, index); }));
auto& twice = *new auto(compile([](const Tensor& x) { return x * 2; }));

struct Values {
  Tensor table = to(ones({4, 3}), Device::cuda()).eval();
  Tensor index = to(arange(4), Device::cuda()).eval();
  Tensor call() const { return look_up(table, index).eval(); }
  Tensor failing_call() const {
    fail_checks(1);
    const Tensor result = call();
    fail_checks(0);
    return result;
  }
};
void read(const Tensor& x) { static_cast<void>(x.data<float>()); }

}  // namespace

int main(int count, char** arguments) {
  void* const driver = count == 2 ? dlopen(arguments[1], RTLD_NOW) : nullptr;
  fail_checks = driver ? reinterpret_cast<void (*)(int)>(dlsym(driver, "fake_fail_checks")) : nullptr;
  if (!fail_checks) return 2;
  const Values mine;
  for (int i = 0; i < 3; ++i) read(mine.call());

  // The caller is told, once, at its next call or when it waits; a thread that uses other values is not.
  in_a_thread([&] {
    static_cast<void>(mine.failing_call());
    in_a_thread([&] {
      require_nothing(error_of([&] { read(mine.call()); }), "another thread that calls and reads");
      require_nothing(error_of([] { cuda::synchronize(); }), "another thread that waits");
    });
    require_told(error_of([&] { static_cast<void>(mine.call()); }), "the caller");
    require_nothing(error_of([&] { read(mine.call()); }), "the caller, again");
    static_cast<void>(mine.failing_call());
    require_told(error_of([] { cuda::synchronize(); }), "the caller that waits");
    require_nothing(error_of([] { cuda::synchronize(); }), "the caller that waits again");
  });

  // So is a caller whose next call is compiled first: making its kernels tells nobody, who would try again.
  in_a_thread([&] {
    const Tensor made = mine.failing_call();
    require_told(error_of([&] { read(cosh(made) * 3); }), "the caller whose next operation is new");
    static_cast<void>(mine.failing_call());
    const auto anew = compile([](const Tensor& x) { return sinh(x) - 7; });
    require_told(error_of([&] { static_cast<void>(anew(mine.table).eval()); }),
                 "the caller whose next function is new");
  });

  // A check that is still to fail holds up who would make state of what its call gives.
  in_a_thread([&] {
    auto learn = compile([](Tensor& w, const Tensor& slope) { w = w - slope * 0.1; });
    Tensor w = to(ones({4, 3}), Device::cuda()).eval();
    for (int i = 0; i < 3; ++i) learn(w, mine.call());
    cuda::synchronize();
    fail_checks(2);
    const Tensor slope = mine.call();
    fail_checks(0);
    require_told(error_of([&] { learn(w, slope); }), "who learns from what a call gives whose check fails later");
    require_nothing(error_of([&] { learn(w, mine.call()); }), "who learns from a good call");
    fail_checks(2);
    const Tensor later = mine.call();
    fail_checks(0);
    require_nothing(error_of([&] { static_cast<void>(twice(later)); }), "who makes no state of it");
    require_told(error_of([] { cuda::synchronize(); }), "who waits");
  });

  // Who takes what a failed call made is told, also when its thread has ended.
  Tensor made, good;
  in_a_thread([&] { good = mine.call(); });
  require_nothing(error_of([&] { read(good); }), "who reads what a good call made");
  in_a_thread([&] { made = mine.failing_call(); });
  in_a_thread([&] { require_nothing(error_of([&] { read(mine.call()); }), "a thread that begins later"); });
  require_nothing(error_of([&] { read(mine.call()); }), "who reads something else");
  require_told(error_of([&] { read(made); }), "who reads it");
  require_told(error_of([&] { read(to(made, Device::cpu())); }), "who copies it");
  require_told(error_of([&] { read(twice(made)); }), "who passes it to a function");
  require_told(error_of([&] { read(made + 1); }), "who computes with it");
  // The same thread goes on with it before it is told: its next call throws.
  in_a_thread([&] { require_told(error_of([&] { read(twice(mine.failing_call())); }), "the caller that goes on"); });

  // Words come again when their threads have ended: what one had failed is not told the next.
  for (int i = 0; i < 5000; ++i) {
    const bool fails = i % 97 == 0;
    std::string error;
    in_a_thread([&] {
      error = error_of([&] { static_cast<void>(mine.call()); });
      if (fails) static_cast<void>(mine.failing_call());
    });
    require_nothing(error, "thread " + std::to_string(i));
    if (!error.empty()) break;
  }
  require_nothing(error_of([&] { read(mine.call()); }), "the main thread");
  return wrong == 0 ? 0 : 1;
}
