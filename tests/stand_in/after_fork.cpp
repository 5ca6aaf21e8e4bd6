// after_fork DRIVER: what a process does with a device that its parent used before it forked, which CUDA does not
// allow: every call says so. A parent that has not used one leaves its children what it has. Ends with 0 when all is
// right.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <weft/cuda.hpp>
#include <weft/weft.hpp>

using namespace weft;

namespace {

template <class Work>
bool is_refused(const char* what, Work work) {
  try {
    work();
    std::fprintf(stderr, "%s: nothing thrown\n", what);
  } catch (const Error& error) {
    const std::string text = error.what();
    if (text.find("cuda:0 was used before this process was forked") != text.npos) return true;
    std::fprintf(stderr, "%s: %s\n", what, error.what());
  }
  return false;
}

// Whether it is true in a child.
template <class Work>
bool holds_in_child(Work work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(120);  // a hang ends in a signal
    _exit(work() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0;
}

}  // namespace

int main() {
  const bool first = holds_in_child([] {
    cuda::synchronize();
    return to(ones({3}), Device::cuda()).eval().device() == Device::cuda();
  });
  const auto twice = compile([](const Tensor& x) { return x * 2; });
  const Tensor x = to(ones({3}), Device::cuda()).eval();
  twice(x).eval();
  const cuda::Event event;
  const bool later = holds_in_child([&] {
    bool all = is_refused("synchronize", [] { cuda::synchronize(); });
    all = is_refused("Event::synchronize", [&] { event.synchronize(); }) && all;
    all = is_refused("memory_stats", [] { cuda::memory_stats(); }) && all;
    all = is_refused("to", [] { to(ones({3}), Device::cuda()); }) && all;
    all = is_refused("a compiled call", [&] { twice(x).eval(); }) && all;
    all = is_refused("reading", [&] { static_cast<void>(x.data<float>()); }) && all;
    const Tensor two = ones({2}) + 1;
    return all && two.data<float>()[0] == 2;  // the host's work goes on
  });
  cuda::synchronize();  // nor is the parent's disturbed
  if (!first) std::fprintf(stderr, "the child of a process without a device has none\n");
  return first && later ? 0 : 1;
}
