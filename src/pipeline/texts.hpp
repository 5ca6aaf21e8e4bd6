// What texts of an executable are made from, and the log lines of a compilation.
#pragma once
#include <functional>
#include <mutex>

#include "pipeline/compilation.hpp"

namespace weft {

// Graphs and a schedule that do not hold the memory of constants. Texts are made when they are asked for; where the
// plan was on disk, the schedule is made then.
class TextSources {
 public:
  explicit TextSources(const Graph& traced);
  TextSources(const Graph& traced, std::function<void(TextSources&)> later);
  void add(const Compilation& compilation, Device device);
  Texts texts();
  // As traced, without the memory of constants: no pass reads their elements, nor does the schedule.
  const Graph& traced() const { return traced_; }

 private:
  // Of one device; of a graph on several devices there are several, in their order.
  struct Part {
    Graph optimized;
    Schedule schedule;
    Device device;
  };
  void add_temporaries(const Schedule& schedule, std::size_t first, std::vector<Texts::Temporary>& all) const;
  void report(const Payload& payload, const runtime::EntryPoint& entry, Dim times, const providers::Sources& sources,
              std::vector<KernelReport>& kernels) const;

  std::mutex mutex_;
  std::function<void(TextSources&)> later_;
  Graph traced_;
  std::vector<Part> parts_;
  std::vector<std::int64_t> hints_;
};

// To observers of the schedule that the program has registered.
void show_fusion(const RegisteredPasses& registered, const Schedule& schedule);
// Under WEFT_LOGS=fusion and kernels, of an executable that kept what texts are made from.
void log_texts(const Executable& executable);
// Under WEFT_LOGS=passes.
void log_stages(const Executable& executable);

}  // namespace weft
