// profile(f, args...): where the time of a call goes, step by step.
//   std::cout << profile(step, model, optimizer, x, y);
//   profile(step, model, optimizer, x, y).chrome_trace("step.json");   // for chrome://tracing or ui.perfetto.dev
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace weft {

// What profile() measured. Times are seconds; those of a step on a GPU are by the GPU's clock.
struct Profile {
  // A kernel, or an operation that a library does, of the compiled functions that were called.
  struct Step {
    std::string name;                   // the generated function's, or the operation's
    std::string function;               // "compile at file:line": which compiled function runs it
    std::vector<std::string> computes;  // what: an operation each, with its type and the user's line
    std::string by;                     // the library; empty: a generated kernel, or Weft's own routine
    std::string loop;                   // the step in whose body it runs; empty outside of loops
    bool generated = false;             // a kernel of Weft's own code generation
    double runs = 0;                    // in a call
    double seconds = 0;                 // in a call, all runs, the median over calls; of a loop without its bodies
    std::int64_t bytes = 0;             // read and written in a call, each access counted
    std::int64_t operations = 0;        // in a call: one for an addition, more for what takes longer
    double bandwidth = 0;               // bytes a second
    double rate = 0;                    // operations a second
    double of_bandwidth = 0;            // share of machine_bandwidth; above 1 from caches
    double of_peak = 0;                 // share of what its products were measured to do; 0: no memory for that
  };
  // One run of a step, for chrome_trace().
  struct Event {
    std::size_t step;    // into steps
    double begin = 0;    // from the begin of the first call
    double seconds = 0;  // how long it took
  };
  std::vector<Step> steps;       // the longest first
  std::vector<Event> events;     // runs of steps, in the order of their begin
  std::size_t calls = 0;         // that were measured step by step
  double seconds = 0;            // of a whole call, not watched: the median
  double seconds_in_steps = 0;   // of a watched call: the sum of all steps
  double machine_bandwidth = 0;  // bytes a second, measured in this process
  std::size_t compilations = 0;  // during the measurement: more than 0 where every call compiles again

  // Writes the runs of all steps in the format of Chrome's tracing. Throws Error where the file can't be written.
  void chrome_trace(const std::string& path) const;
};
std::string to_string(const Profile& profile);                        // a table, the longest step first
std::ostream& operator<<(std::ostream& out, const Profile& profile);  // the same

namespace detail {
Profile profile(void (*call)(void* context), void* context);
}
// Calls f(argument...) eight to about 400 times, for about a second where a call is short: first until nothing is
// compiled, then to measure whole calls, then step by step. The first profile() of a process also measures the machine.
// These are real calls: state moves on. Arguments are passed as lvalues. f is a compiled function, or any function that
// calls some: only their steps are seen, and nothing that runs eagerly. Throws what f throws.
template <class F, class... A>
Profile profile(F&& f, A&&... argument) {
  auto call = [&] { static_cast<void>(f(argument...)); };
  return detail::profile([](void* context) { (*static_cast<decltype(call)*>(context))(); }, &call);
}

}  // namespace weft
