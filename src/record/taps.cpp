// Taps: a name is compared with what is asked for; nothing is recorded.
#include "record/taps.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "base/per_thread.hpp"
#include "record/record.hpp"

namespace weft {
namespace detail {

struct TapCollector::State {
  std::vector<std::string> paths;
  Loc loc;
  std::vector<Tensor> found;       // one a path
  std::vector<bool> met;           // one a path
  std::vector<std::string> names;  // of all taps so far, each with its number
  std::size_t scopes;              // how much of the path is from scopes around with_taps
  Trace* trace = recorder().trace();
  State* outer = tap_listener;

  void meet(std::string name, const Tensor& x, Loc at);
};

namespace {

struct ScopePath {
  std::string text;
};
std::string& scope_path() { return per_thread<ScopePath>().text; }

}  // namespace

void TapCollector::State::meet(std::string name, const Tensor& x, Loc at) {
  const std::string again = name + "#";
  const auto same =
      std::ranges::count_if(names, [&](const std::string& each) { return each == name || each.starts_with(again); });
  if (same) name = again + std::to_string(same);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (paths[i] != name) continue;
    if (recorder().trace() != trace)
      fail("tap", at, name,
           " is asked for, and is in the body of a loop or a choice (scan, fori, while_loop, cond): its "
           "value belongs to one iteration; return it from the body, or write with_taps there");
    found[i] = x;
    met[i] = true;
  }
  names.push_back(std::move(name));
}

TapCollector::TapCollector(std::vector<std::string> paths, Loc loc)
    : state_(new State{std::move(paths), loc, {}, {}, {}, scope_path().size()}) {
  state_->found.resize(state_->paths.size());
  state_->met.resize(state_->paths.size());
  tap_listener = state_;
}
TapCollector::~TapCollector() {
  tap_listener = state_->outer;
  delete state_;
}

std::vector<Tensor> TapCollector::take() {
  for (std::size_t i = 0; i < state_->paths.size(); ++i) {
    if (state_->met[i]) continue;
    std::string names;
    for (const std::string& name : state_->names) names += (names.empty() ? "" : ", ") + name;
    fail("with_taps", state_->loc, "no tap has the path ", state_->paths[i], "; ",
         names.empty() ? "the function has none" : "there are: " + names);
  }
  return std::move(state_->found);
}

}  // namespace detail

Tensor tap(const char* name, const Tensor& x, Loc loc) {
  for (auto* listener = detail::tap_listener; listener; listener = listener->outer)
    listener->meet(detail::scope_path().substr(listener->scopes) + name, x, loc);
  return x;
}

constexpr std::size_t nobody_listens = SIZE_MAX;

TapScope::TapScope(const char* name) : before_(nobody_listens) {
  if (!detail::tap_listener) return;
  std::string& path = detail::scope_path();
  before_ = path.size();
  path += name;
  path += '.';
}
TapScope::TapScope(const char* name, std::int64_t index) : TapScope(name) {
  if (before_ != nobody_listens) detail::scope_path() += std::to_string(index) + '.';
}
TapScope::~TapScope() {
  if (before_ != nobody_listens) detail::scope_path().resize(before_);
}

}  // namespace weft
