#include "weft/precompile.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>

#include "base/fail.hpp"
#include "base/processors.hpp"
#include "record/record.hpp"
#include "runtime/cache_file.hpp"
#include "trace/dry_run.hpp"
#include "trace/names.hpp"

namespace weft {
namespace detail {
namespace {

thread_local constinit std::vector<KernelRequest>* requests = nullptr;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string text_of(const Specialization& specialization) {
  std::vector<std::string> types;
  for (const Type& type : specialization.first().output_types) types.push_back(to_string(type));
  const bool is_derivative = specialization.guards.words.empty();  // it is found by what is asked for
  const char* const kind = is_derivative ? "derivative: " : specialization.level ? "saving forward: " : "forward: ";
  return kind + few_of(types);
}

}  // namespace

DryRun::DryRun(std::vector<KernelRequest>& to) : before_(std::exchange(requests, &to)), stance_(Stance::compile) {
  is_dry_run = true;
}
DryRun::~DryRun() {
  requests = before_;
  is_dry_run = before_ != nullptr;
}

void ask_for_kernels(const Function& function, const Specialization& specialization, std::shared_ptr<KernelJob> job) {
  if (!requests || !job || job->done()) return;
  if (std::ranges::any_of(*requests, [&](const KernelRequest& each) { return each.job == job; })) return;
  requests->push_back({title(function), text_of(specialization), specialization.shared_from_this(), std::move(job)});
}

struct PrecompileState {
  PrecompileOptions options;
  std::vector<KernelRequest> requests;
  std::vector<Precompiled> entries;   // those of requests first lack what making gives
  std::vector<std::size_t> entry_of;  // of each request
};

std::string title_of(const Function* function) { return title(*function); }

void add_dry_run(PrecompileState& state, const std::string& title, void (*program)(void* context), void* context) {
  const std::size_t before = state.requests.size();
  std::string failure;
  try {
    const DryRun scope(state.requests);
    program(context);
  } catch (const std::exception& error) {
    failure = first_line(error.what());
  } catch (...) {
    failure = "an exception that is no std::exception";
  }
  for (std::size_t i = before; i < state.requests.size(); ++i) {
    state.entry_of.push_back(state.entries.size());
    state.entries.push_back({state.requests[i].function, state.requests[i].what});
  }
  if (!failure.empty())
    state.entries.push_back({title, "trace", 0, failure});
  else if (before == state.requests.size())
    state.entries.push_back({title, "compiled already"});
}

namespace {

void make(KernelRequest& request, Precompiled& entry) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  try {
    request.job->make();
    entry.failure = first_line(request.job->failure());
  } catch (const std::exception& error) {
    entry.failure = first_line(error.what());
  }
  entry.milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

}  // namespace
}  // namespace detail

SpecSize::SpecSize(std::int64_t least, std::int64_t greatest, std::int64_t example)
    : least(least), greatest(greatest), example(example) {
  constexpr std::int64_t usual = 64;
  if (example == 0 && least <= greatest) this->example = std::clamp(usual, least, greatest);
}

Tensor tensor_spec(std::initializer_list<SpecSize> sizes, DType dtype, Device device, Loc loc) {
  if (sizes.size() > max_rank) fail("tensor_spec", loc, "it has ", sizes.size(), " axes, and a tensor at most 8");
  Type type{dtype, false, device, {}};
  for (const SpecSize& size : sizes) {
    if (size.least > size.greatest || size.example < size.least || size.example > size.greatest || size.least < 0)
      fail("tensor_spec", loc, "the size of axis ", type.shape.rank(), " is ", size.example, ", from ", size.least,
           " to ", size.greatest, ": sizes are not negative, and the example is in the range");
    type.shape.push_back(size.example);
  }
  check_count("tensor_spec", type, loc);
  Tensor made = unknown_value(type, loc);
  int axis = 0;
  for (const SpecSize& size : sizes) {
    if (size.least != size.greatest) mark_dynamic(made, axis, size.least, size.greatest, loc);
    ++axis;
  }
  return made;
}

bool PrecompileReport::ok() const {
  return std::ranges::all_of(entries, [](const Precompiled& each) { return each.failure.empty(); });
}
std::string PrecompileReport::text() const {
  std::string text;
  for (const Precompiled& each : entries) {
    text += each.function + ", " + each.what;
    if (each.milliseconds > 0) text += concat_text(", ", static_cast<std::int64_t>(each.milliseconds + 0.5), " ms");
    text += each.failure.empty() ? "\n" : "; failed: " + each.failure + "\n";
  }
  return text;
}

Precompiler::Precompiler(const PrecompileOptions& options) : state_(std::make_shared<detail::PrecompileState>()) {
  state_->options = options;
}

PrecompileReport Precompiler::run() {
  detail::PrecompileState& state = *state_;
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i; (i = next.fetch_add(1)) < state.requests.size();)
      detail::make(state.requests[i], state.entries[state.entry_of[i]]);
  };
  const std::size_t wanted = state.options.threads > 0 ? static_cast<std::size_t>(state.options.threads)
                                                       : static_cast<std::size_t>(allowed_processors().count);
  std::vector<std::thread> others;
  try {
    while (others.size() + 1 < std::min(wanted, state.requests.size())) others.emplace_back(work);
  } catch (const std::system_error&) {  // no more threads can be had: those that there are do it all
  }
  work();
  for (std::thread& each : others) each.join();
  PrecompileReport report{std::move(state.entries)};
  state.entries = {};
  state.requests.clear();
  state.entry_of.clear();
  return report;
}

std::vector<std::byte> cache_bytes(Loc loc) {
  std::size_t count = 0;
  const std::string bytes = entries_as_bytes(count, loc);
  const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
  return {begin, begin + bytes.size()};
}
std::size_t load_cache(std::span<const std::byte> bytes, Loc loc) {
  return load_entries("what was given", {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, loc);
}

}  // namespace weft
