// What all stages of a pipeline share: owners of a source, the numbers that they refuse, generators for random numbers.
#include <atomic>
#include <string>

#include "base/fail.hpp"
#include "record/record.hpp"
#include "weft/detail/data_stages.hpp"

namespace weft::data::detail {

struct Shared::Owners {
  void (*drop)(const void* object);
  std::atomic<std::int64_t> count = 1;
};
Shared::Shared(const void* object, void (*drop)(const void* object))
    : object_(object), owners_(drop ? new Owners{drop} : nullptr) {}
Shared::Shared(const Shared& other) noexcept : object_(other.object_), owners_(other.owners_) {
  if (owners_) owners_->count.fetch_add(1, std::memory_order_relaxed);
}
Shared::~Shared() {
  if (!owners_ || owners_->count.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  owners_->drop(object_);
  delete owners_;
}

void refuse_skipping(Loc loc) {
  fail("prefetch", loc, "skip_bad must be given to the first threads: map(f, {.workers = 2, .skip_bad = true})");
}
void refuse_source(Loc loc) { fail("pipeline", loc, "the source has no elements"); }
void check_at_least(const char* operation, const char* what, std::int64_t least, std::int64_t value, Loc loc) {
  if (value < least) fail(operation, loc, what, " is ", value, ", at least ", least, " is wanted");
}
void check_count(const char* operation, const char* what, std::int64_t least, std::int64_t value, Loc loc) {
  constexpr std::int64_t most = 1 << 20;
  check_at_least(operation, what, least, value, loc);
  if (value > most) fail(operation, loc, what, " is ", value, ", at most ", most, " is wanted");
}
void check_outside_trace(Loc loc) {
  if (recorder().trace()) fail("pipeline", loc, "elements are made on the host: not inside a compiled function");
}

Generator generator_of_pass(Generator& generator, Loc loc) {
  Generator result = generator.fork(loc);
  LeafList leaves;
  compute(flattened(result, leaves), loc);
  return result;
}
Generator generator_of_element(const Generator& of_pass, std::int64_t index, Loc loc) {
  return of_pass.named(std::to_string(index).c_str(), loc);
}

}  // namespace weft::data::detail
