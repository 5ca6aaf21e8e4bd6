// A step as a plan on disk has it: its fields, and what makes it ready on the host. In: what a provider has decided
// (src/providers), or bytes. Out: a Runnable. The runtime alone has all of it; what makes steps is elsewhere.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "runtime/step.hpp"

namespace weft::runtime {

// Bytes moved and operations done, over the plan's symbols.
struct StepCost {
  Dim bytes = 0, operations = 0;
  static auto fields(auto& self) { return std::tie(self.bytes, self.operations); }
};

class StoredStep : public Preparable {
 public:
  virtual StepCost cost() const = 0;
  // The library that does it; empty for a generated kernel and for a routine of Weft's own.
  virtual std::string by() const { return {}; }
  // Whether its functions were generated; whether it runs other steps.
  virtual bool generated() const { return false; }
  virtual bool runs_others() const { return false; }
};

// Who makes a step of its name and fields: null where the name is nobody's, or what the step needs is not there. It may
// throw Malformed.
using StepReader = std::function<std::shared_ptr<const Preparable>(const std::string& name, FieldReader& from)>;

// A step that is its fields: `Fields` lists them, `Own` is the step, with its name.
template <class Own, class Fields>
class StepOf : public StoredStep {
 public:
  StepOf() = default;
  explicit StepOf(Fields fields) : what(std::move(fields)) {}
  std::string stored_as() const override { return Own::name; }
  void write(FieldWriter& to, const EntryPoint&) const override { to(what); }
  static std::shared_ptr<const StoredStep> read(FieldReader& from, const StepReader&) {
    auto step = std::make_shared<Own>(from.take<Fields>());
    step->check();
    return step;
  }
  // Throws Malformed where no provider gives such fields.
  void check() const {}

  Fields what;
};

}  // namespace weft::runtime
