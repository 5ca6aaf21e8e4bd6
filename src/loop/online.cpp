#include "loop/online.hpp"

#include <algorithm>

namespace weft::loop {

namespace {

struct Term {
  std::int32_t x, greatest, weight = -1;
};

const Instruction& at(const Kernel& kernel, std::int32_t i) { return kernel.body[static_cast<std::size_t>(i)]; }
bool is(const Instruction& it, Op op) { return it.kind == Kind::apply && it.op == op; }

// exp(x - greatest), where `greatest` is the amax of x.
bool is_exponential(const Kernel& kernel, std::int32_t i, Term& term) {
  if (!is(at(kernel, i), Op::exp)) return false;
  const Instruction& difference = at(kernel, at(kernel, i).args[0]);
  if (!is(difference, Op::sub)) return false;
  const Instruction& greatest = at(kernel, difference.args[1]);
  if (greatest.kind != Kind::reduce || greatest.op != Op::amax || greatest.over_carried || greatest.joins ||
      greatest.args[0] != difference.args[0])
    return false;
  term.x = difference.args[0];
  term.greatest = difference.args[1];
  return true;
}

bool is_term(const Kernel& kernel, std::int32_t i, Term& term) {
  if (is_exponential(kernel, i, term)) return true;
  const Instruction& product = at(kernel, i);
  if (!is(product, Op::mul)) return false;
  for (const int side : {0, 1}) {
    if (!is_exponential(kernel, product.args[side], term)) continue;
    term.weight = product.args[1 - side];
    return at(kernel, term.weight).phase <= at(kernel, term.x).phase;
  }
  return false;
}

}  // namespace

void sum_online(Kernel& kernel) {
  bool found = false;
  for (Instruction& it : kernel.body) {
    Term term{};
    if (it.kind != Kind::reduce || it.op != Op::sum || it.over_carried || it.joins || !is_floating(it.dtype) ||
        !is_term(kernel, it.args[0], term))
      continue;
    it.online = found = true;
    it.args[0] = term.x;
    it.args[1] = term.greatest;
    it.args[2] = term.weight;
  }
  if (!found) return;
  std::vector<bool> stores;
  for (const Instruction& it : kernel.body) stores.push_back(it.kind == Kind::store);
  keep_only(kernel, stores);
  settle(kernel);
}

}  // namespace weft::loop
