// Muon: the momentum of a matrix, made orthogonal.
#include <algorithm>
#include <cmath>

#include "base/fail.hpp"
#include "base/number_checks.hpp"
#include "optim/steps.hpp"
#include "record/composite.hpp"

namespace weft::optim {
namespace {

using detail::Parameters;

std::vector<std::uint8_t> inverted(std::vector<std::uint8_t> flags) {
  for (std::uint8_t& flag : flags) flag = !flag;
  return flags;
}
std::vector<std::uint8_t> matrices_of(const Parameters& parameters, const MuonOptions& options) {
  std::vector<std::uint8_t> result(parameters.size());
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = parameters.parameter(i).defined() && type_of(parameters.parameter(i)).shape.rank() == 2;
  for (const char* pattern : options.others_named) {
    const std::vector<std::uint8_t> named = parameters.named(pattern);
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = result[i] && !named[i];
  }
  return result;
}
Parameters& kept(Parameters& parameters, const std::vector<std::uint8_t>& which) {
  parameters.keep(which);
  return parameters;
}

// Almost U V^T of x = U S V^T: singular values come close to 1. The coefficients are Jordan's.
Tensor orthogonal(const Tensor& x, int steps) {
  const Type type = type_of(x);
  const bool tall = static_cast<std::int64_t>(type.shape[0]) > static_cast<std::int64_t>(type.shape[1]);
  return in_wide(x, [&](const Tensor& wide) {
    Tensor y = tall ? transpose(wide) : wide;
    y = y / maximum(norm(y), 1e-7);
    for (int i = 0; i < steps; ++i) {
      const Tensor gram = matmul(y, transpose(y));
      y = y * 3.4445 + matmul(gram * -4.7750 + matmul(gram, gram) * 2.0315, y);
    }
    return tall ? transpose(y) : y;
  });
}

}  // namespace

Muon::Muon(Parameters parameters, const MuonOptions& options, Groups groups, Loc loc)
    : maximize(options.maximize),
      lr(options.lr),
      weight_decay(options.weight_decay),
      momentum(options.momentum),
      groups(detail::groups_of("Muon", parameters, groups, loc)),
      // Moments of the others alone; a group's options are for both kinds.
      others(kept(parameters, inverted(matrices_of(parameters, options))), options.others, groups, loc),
      nesterov_(options.nesterov),
      ns_steps_(options.ns_steps),
      scale_(options.scale),
      is_matrix_(matrices_of(parameters, options)),
      momentum_(kept(parameters, is_matrix_).zeros(loc)) {
  parameters.require_whole("Muon", loc);
  detail::check_options("Muon",
                        {{"lr", options.lr},
                         {"weight_decay", options.weight_decay},
                         {"momentum", options.momentum},
                         {"ns_steps", static_cast<double>(options.ns_steps)}},
                        {}, loc);
  check_recorded("Muon", "ns_steps", options.ns_steps, loc);
  check_choice("Muon", "MuonScale", options.scale, MuonScale::match_rms_adamw, loc);
}

void Muon::step(Parameters matrices, Parameters rest, Loc loc) {
  LooseComposite call("Muon", loc);
  detail::require_same_model(matrices, momentum_, call.loc());
  matrices.keep(is_matrix_);
  rest.keep(inverted(is_matrix_));
  matrices.set_ascent(maximize);
  rest.set_ascent(maximize);
  detail::NewValues values;
  detail::each_trained(matrices, call.loc(), [&](std::size_t i, Tensor& p, const Tensor& g) {
    const Type type = type_of(p);
    const auto rows = static_cast<double>(static_cast<std::int64_t>(type.shape[0]));
    const auto columns = static_cast<double>(static_cast<std::int64_t>(type.shape[1]));
    const double scale = scale_ == MuonScale::original ? std::sqrt(std::max(1.0, rows / columns))
                                                       : 0.2 * std::sqrt(std::max(rows, columns));
    const Scalar& rate = groups.lr(i, lr);
    const Tensor before = detail::wide(momentum_[i]), moment = before + (g - before) * (1 - momentum);
    values.set(momentum_[i], moment);
    const Tensor change = orthogonal(nesterov_ ? g + (moment - g) * momentum : moment, ns_steps_);
    values.set(p, detail::wide(p) * (1 - rate * groups.weight_decay(i, weight_decay)) - change * (rate * scale));
  });
  values.finish(call.loc());
  others.step(rest, call.loc());
}

}  // namespace weft::optim
