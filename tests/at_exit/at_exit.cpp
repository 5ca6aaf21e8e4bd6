// Calls of Weft when a thread's objects have been destroyed: by destructors of static objects, of thread_local ones in
// the main thread and in another, and by functions given to atexit. Ends with 0 when each of them was right.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <weft/weft.hpp>

using namespace weft;

namespace {

auto& squares = *new auto(compile([](const Tensor& x) { return sum(x * x + 1); }));
int calls = 0;

void require(bool right, const char* what, const char* where) {
  if (right) return;
  std::fprintf(stderr, "%s is wrong in %s\n", what, where);
  _exit(1);
}

void call(const char* where) {
  const Tensor x = full({300, 1000}, 2);  // enough for several threads
  require(squares(x).item() == 1500000, "a compiled function", where);
  require(sum(exp(x * 0) + x).item() == 900000, "an eager one", where);
  auto gradient = grad([](const Tensor& v) { return sum(v * v * v); }, full({2}, 3));
  require(sum(gradient).item() == 54, "grad", where);
  auto later = compile([](const Tensor& v) { return v + uniform({2}, 0, 0.5); });
  require(sum(later(zeros({2}))).item() < 1, "what is compiled there", where);
  bool thrown = false;
  try {
    matmul(x, x).eval();
  } catch (const Error&) {
    thrown = true;
  }
  require(thrown, "an error", where);
  ++calls;
}

struct Last {  // made first
  ~Last() { require(calls == 7, "the number of calls", "the last destructor"); }
} last;

struct Late {
  const char* where;
  Tensor kept;  // freed after that
  explicit Late(const char* where) : where(where) {}
  ~Late() {
    call(where);
    kept = (full({1000}, 3) + 1).eval();
  }
};

Late in_static("the destructor of a static object");
thread_local Late in_thread("the destructor of a thread_local object");

}  // namespace

int main() {
  std::atexit([] { call("atexit, before main's first call"); });
  require(in_thread.where, "an object", "main");  // made before what Weft keeps for this thread, so destroyed after it
  call("main");
  std::atexit([] { call("atexit, after main's first call"); });
  std::thread([] {
    require(in_thread.where, "an object", "another thread");
    call("another thread");
  }).join();
}
