#include "weft/verify.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>

#include "base/fail.hpp"
#include "observe/difference.hpp"
#include "record/random.hpp"
#include "trace/function.hpp"
#include "trace/names.hpp"
#include "trace/replay.hpp"

namespace weft {
namespace detail {

// By the place of the leaf in its list.
struct RoundingSpreads::State {
  std::vector<RoundingSpread> results, arguments;
};

namespace {

struct Comparison {
  const char* way;
  Verification& out;

  void differs(const std::string& leaf, double found, double expected, std::size_t element = 0) {
    out.differences.push_back(
        {way, leaf, std::fabs(found - expected), static_cast<std::int64_t>(element), found, expected});
  }
  void tensors(const std::string& leaf, const Tensor& found, const Tensor& expected, const RoundingSpread* spread) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    if (!found.defined() && !expected.defined()) return;
    if (found.defined() != expected.defined() || found.dtype() != expected.dtype() ||
        !found.shape().same(expected.shape()))
      return differs(leaf, nan, nan);
    const std::optional<Distance> distance = distance_of(found, expected, spread);
    if (!distance) return;
    out.greatest_relative = std::max(out.greatest_relative, distance->relative);
    if (!distance->allowed) differs(leaf, distance->found, distance->expected, distance->element);
  }
  void leaves(const LeafList& found, const LeafList& expected, const std::vector<std::string>& names, bool only_state,
              const std::vector<RoundingSpread>* spreads) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    if (found.leaves.size() != expected.leaves.size()) return differs("the number of values", nan, nan);
    for (std::size_t i = 0; i < found.leaves.size(); ++i) {
      const Leaf &a = found.leaves[i], &b = expected.leaves[i];
      if (only_state && a.access != Access::state) continue;
      ++out.compared;
      if (a.kind != b.kind || (!holds_tensor(a.kind) && a.size != b.size))
        differs(names[i], nan, nan);
      else if (holds_tensor(a.kind))
        tensors(names[i], a.tensor(), b.tensor(), spreads && i < spreads->size() ? &(*spreads)[i] : nullptr);
      else if ((a.kind == LeafKind::number || a.kind == LeafKind::bytes || a.kind == LeafKind::text) &&
               std::memcmp(a.address, b.address, a.size) != 0)
        differs(names[i], nan, nan);
    }
  }
};

}  // namespace

RoundingSpreads::RoundingSpreads() : state_(new State) {}
RoundingSpreads::~RoundingSpreads() { delete state_; }

void RoundingSpreads::add(const VerifiedRun& exact, void* context, const VerifiedRun& (*run)(void* context)) {
  const auto add_leaves = [](const LeafList& from, const LeafList& to, std::vector<RoundingSpread>& spreads) {
    if (from.leaves.size() != to.leaves.size()) return;
    spreads.resize(from.leaves.size());
    for (std::size_t i = 0; i < from.leaves.size(); ++i) {
      if (!holds_tensor(from.leaves[i].kind) || !holds_tensor(to.leaves[i].kind)) continue;
      const Tensor &a = from.leaves[i].tensor(), &b = to.leaves[i].tensor();
      if (a.defined() && b.defined() && a.dtype() == b.dtype() && a.shape().same(b.shape())) spreads[i].add(a, b);
    }
  };
  for (unsigned seed = 0; seed < rounding_runs; ++seed) {
    const MovedRoundings moves(seed);
    try {
      const VerifiedRun& moved = run(context);
      add_leaves(exact.results, moved.results, state_->results);
      add_leaves(exact.arguments, moved.arguments, state_->arguments);
    } catch (const OutOfMemory&) {
      throw;
    } catch (const Error&) {
      continue;
    }
  }
}

void compare_runs(const char* way, const CallSignature& signature, const VerifiedRun& expected,
                  const VerifiedRun& found, const RoundingSpreads* spreads, Verification& out) {
  Comparison comparison{way, out};
  comparison.leaves(found.results, expected.results, result_names(signature, found.results), false,
                    spreads ? &spreads->state().results : nullptr);
  comparison.leaves(found.arguments, expected.arguments, argument_names(signature, found.arguments), true,
                    spreads ? &spreads->state().arguments : nullptr);
}

Tensor generator_state() { return *hold_default_generator().state; }
void set_generator_state(const Tensor& state) { *hold_default_generator().state = state; }
CompileOptions options_of(const Function* function) { return function->options; }

}  // namespace detail

std::string to_string(const Verification& verification) {
  std::string text;
  for (const Verification::Difference& each : verification.differences)
    text += concat_text(each.way, ": ", each.leaf,
                        std::isnan(each.found) && std::isnan(each.expected)
                            ? " is another value than the plain function's\n"
                            : concat_text(" is ", each.found, " at element ", each.element,
                                          ", the plain function's is ", each.expected, "\n"));
  return text + concat_text(verification.compared, " values compared, ",
                            verification.same() ? "none differs" : "some differ",
                            "; the greatest relative difference is ", verification.greatest_relative, "\n");
}
std::ostream& operator<<(std::ostream& out, const Verification& verification) { return out << to_string(verification); }

}  // namespace weft
