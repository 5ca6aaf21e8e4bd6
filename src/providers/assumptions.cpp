#include "providers/assumptions.hpp"

#include <algorithm>

namespace weft::providers {

namespace {
thread_local constinit Assumptions* of_thread = nullptr;
}  // namespace

Assumptions::Assumptions(bool allowed) : before_(std::exchange(of_thread, allowed ? this : nullptr)) {}
Assumptions::~Assumptions() { of_thread = before_; }
bool Assumptions::hold() const {
  return std::ranges::all_of(all_, [](const std::function<bool()>& holds) { return holds(); });
}
Assumptions* Assumptions::current() { return of_thread; }

}  // namespace weft::providers
