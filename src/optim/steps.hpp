// What the steps of all optimizers share.
#pragma once
#include "weft/optim.hpp"

namespace weft::optim::detail {

// A step outside a trace is computed when it is taken: nothing of it stays pending.
void compute(std::vector<Tensor> values, Loc loc);
void require_same_model(std::size_t made_for, std::size_t given, Loc loc);

// An option as the user wrote it.
struct NamedOption {
  const char* name;
  double value;
};
// Throws the user's error for an amount that is negative or no number, and a share that is not from 0 to below 1.
void check_options(const char* optimizer, std::initializer_list<NamedOption> amounts,
                   std::initializer_list<NamedOption> shares, Loc loc);

// Calls f(number, parameter, gradient) for each parameter that is updated.
template <class F>
void each_trained(const Parameters& parameters, F f) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters.trains(i)) f(i, parameters.parameter(i), parameters.gradient(i));
}

}  // namespace weft::optim::detail
