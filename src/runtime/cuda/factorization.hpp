// Factorizations of matrices on a device, by cuSOLVER and cuBLAS.
#pragma once
#include "runtime/cuda/steps.hpp"
#include "runtime/factorization.hpp"

namespace weft::runtime::cuda {

// Buffers: as on the host. Matrices lie by rows and the library wants columns: it is given the transposed problem where
// that has the same memory, else the function moves the numbers. The host has what the library has one matrix at a time
// and is slower in, matrices without elements, and sizes beyond 2^31.
class DeviceFactorization final : public Runnable {
 public:
  DeviceFactorization(const Factorization& what, const FactorizationSizes<Dim>& sizes, std::span<const Dim> bytes,
                      std::size_t operands, const Preparation& preparation);
  bool has_workspace() const override { return true; }
  std::size_t workspace(std::span<const std::int64_t> numbers) const override;
  // The library waits for its results.
  bool can_be_recorded(bool /*checks_wait*/) const override { return false; }
  void run(const StepCall& call) const override;

 private:
  class Run;
  FactorizationSizes<std::int64_t> sizes_of(std::span<const std::int64_t> numbers) const;
  bool is_for_host(const FactorizationSizes<std::int64_t>& sizes) const;

  DeviceState& device_;
  DeviceFunction function_;
  Factorization what_;
  NumberTable::Range sizes_;
  FactorizationStep on_host_;
};

}  // namespace weft::runtime::cuda
