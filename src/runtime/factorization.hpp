// A factorization or a transform as a step. In: operands row by row in the memory of a device. Out: results there. It
// is done on the host: of another device's memory on copies, for which the call waits.
#pragma once
#include "base/factorization.hpp"
#include "runtime/step.hpp"

namespace weft::runtime {

class FactorizationStep final : public Runnable {
 public:
  // `bytes`: of each buffer, the operands first.
  FactorizationStep(const Factorization& what, const FactorizationSizes<Dim>& sizes, std::span<const Dim> bytes,
                    std::size_t operands, const Preparation& preparation)
      : what_(what),
        sizes_(preparation.numbers.add({sizes.batch, sizes.rows, sizes.columns, sizes.sides})),
        bytes_(preparation.numbers.add(bytes)),
        operands_(operands),
        device_(preparation.device) {}
  bool can_be_recorded() const override { return device_.type == Device::Type::cpu; }
  void run(const StepCall& call) const override;

 private:
  void run_on_copies(const StepCall& call, const FactorizationSizes<std::int64_t>& sizes) const;

  Factorization what_;
  NumberTable::Range sizes_, bytes_;
  std::size_t operands_;
  Device device_;
};

}  // namespace weft::runtime
