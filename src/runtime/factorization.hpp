// A factorization or a transform as a step. In: operands row by row in the memory of a device. Out: results there. It
// is done on the host: of another device's memory on copies, for which the call waits.
#pragma once
#include "base/factorization.hpp"
#include "runtime/stored_step.hpp"

namespace weft::runtime {

// Throws Error where the program does not link those who do it (host/factorization.cpp).
void require_linked(Factorization::Kind kind);

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
  bool can_be_recorded(bool /*checks_wait*/) const override { return device_.type == Device::Type::cpu; }
  bool fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const override;
  void run(const StepCall& call) const override;

 private:
  void run_on_copies(const StepCall& call, const FactorizationSizes<std::int64_t>& sizes) const;

  Factorization what_;
  NumberTable::Range sizes_, bytes_;
  std::size_t operands_;
  Device device_;
};

struct NamedStep;
namespace steps {
// `factorization` (steps.def), together with its kernels, which it takes from elsewhere, or is an Error when it is
// prepared.
extern const NamedStep linear_algebra;
}  // namespace steps

struct FactorizationFields {
  Factorization what;
  FactorizationSizes<Dim> sizes;
  std::size_t operands = 0;
  std::vector<Dim> bytes = {};  // of each buffer
  static auto fields(auto& self) {
    auto& [kind, dtype, upper, transposed, unit, vectors, full, inverse] = self.what;
    auto& [batch, rows, columns, sides] = self.sizes;
    return std::tie(kind, dtype, upper, transposed, unit, vectors, full, inverse, batch, rows, columns, sides,
                    self.operands, self.bytes);
  }
};
class StoredFactorization final : public StepOf<StoredFactorization, FactorizationFields> {
 public:
  static constexpr const char* name = "factorization";
  using StepOf::StepOf;
  std::string by() const override { return "Eigen"; }
  StepCost cost() const override;
  // Throws Error where nobody who does it is linked.
  std::unique_ptr<Runnable> prepare(const Preparation& preparation) const override {
    require_linked(what.what.kind);
    return std::make_unique<FactorizationStep>(what.what, what.sizes, what.bytes, what.operands, preparation);
  }
  void check() const {
    const bool known = what.what.kind <= Factorization::Kind::inverse_real_fourier &&
                       (what.what.dtype == DType::f32 || what.what.dtype == DType::f64);
    if (!known) throw Malformed();
  }
};

}  // namespace weft::runtime
