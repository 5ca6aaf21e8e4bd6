#include "runtime/host/steps.hpp"

#include "runtime/steps.hpp"
#include "weft/error.hpp"

namespace weft::runtime {

void HostCheck::run(const StepCall& call) const {
  const bool holds = *static_cast<const unsigned char*>(call.pointers[0]) != 0;
  if (!holds) throw Error(message_.c_str());
}

std::unique_ptr<Runnable> StoredCheck::prepare(const Preparation&) const {
  return std::make_unique<HostCheck>(what.message);
}

const NamedStep steps::check{StoredCheck::name, StoredCheck::read};

}  // namespace weft::runtime
