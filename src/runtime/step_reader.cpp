#include "runtime/steps.hpp"

namespace weft::runtime {

namespace {

struct Reader {
  std::vector<NamedStep> steps;
  std::shared_ptr<const Preparable> operator()(const std::string& name, FieldReader& from) const {
    for (const NamedStep& step : steps)
      if (name == step.name) return step.read(from, *this);
    return nullptr;
  }
};

}  // namespace

StepReader reader_of(std::vector<NamedStep> steps) { return Reader{std::move(steps)}; }

}  // namespace weft::runtime
