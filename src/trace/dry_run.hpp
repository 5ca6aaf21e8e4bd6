// The kernels that the calls of a dry run ask for (weft/precompile.hpp). In: calls, which trace. Out: jobs, which
// whoever runs the program makes afterwards.
#pragma once
#include "record/dry_run.hpp"
#include "trace/kernel_job.hpp"

namespace weft::detail {

struct KernelRequest {
  std::string function;  // its title
  std::string what;      // "forward: f32[s0,10]"
  std::shared_ptr<const Specialization> specialization;
  std::shared_ptr<KernelJob> job;
};

// From here to the end of the block calls of this thread compute nothing.
class DryRun {
 public:
  explicit DryRun(std::vector<KernelRequest>& to);
  ~DryRun();
  DryRun(const DryRun&) = delete;

 private:
  std::vector<KernelRequest>* before_;
  StanceScope stance_;
};

// Adds it to the dry run of this thread, once. `job`: null where there is none.
void ask_for_kernels(const Function& function, const Specialization& specialization, std::shared_ptr<KernelJob> job);

}  // namespace weft::detail
