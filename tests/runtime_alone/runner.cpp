// runner FILE: runs what writer.cpp has written, with the runtime alone, and compares every byte. Which steps a
// plan may have is said when this is compiled: RUNNER_STEPS, all where it is not defined.
#include <cstdio>
#include <cstring>

#include "runtime/host/library.hpp"
#include "runtime/plan_file.hpp"
#include "runtime/steps.hpp"
#include "tests/runtime_alone/saved_run.hpp"

using namespace weft;

namespace {

runtime::StepReader reader() {
#ifdef RUNNER_STEPS
  using namespace runtime::steps;
  return runtime::reader_of({RUNNER_STEPS});
#else
  return runtime::read_step;
#endif
}

std::string bytes_of(const char* path) {
  std::string bytes;
  if (std::FILE* file = std::fopen(path, "rb")) {
    char block[1 << 16];
    for (std::size_t count; (count = std::fread(block, 1, sizeof block, file)) > 0;) bytes.append(block, count);
    std::fclose(file);
  }
  return bytes;
}

int fail(const char* why) {
  std::fprintf(stderr, "%s\n", why);
  return 1;
}

}  // namespace

int main(int, char** arguments) {
  try {
    const std::string file = bytes_of(arguments[1]);
    runtime::FieldReader from(file);
    auto saved = from.take<SavedRun>();
    runtime::FieldReader fields(saved.plan);
    runtime::Plan plan = runtime::read_plan(fields, reader());
    if (!saved.kernels.empty())
      plan.functions = Library::load(saved.kernels, {saved.key_low, saved.key_high}, saved.units);
    runtime::prepare(plan);
    std::vector<void*> given, made;
    std::vector<SavedRun::Bytes> results;
    for (SavedRun::Bytes& each : saved.arguments) given.push_back(each.data());
    for (const SavedRun::Bytes& each : saved.results) made.push_back(results.emplace_back(each.size()).data());
    for (int i = 0; i < 3; ++i) runtime::run(plan, given, made, {});
    if (results != saved.results) return fail("the results differ");
    return 0;
  } catch (const runtime::Malformed&) {
    return fail("the plan is damaged, or has a step that is not linked");
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}
