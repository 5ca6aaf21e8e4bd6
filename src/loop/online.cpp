#include "loop/online.hpp"

#include <algorithm>
#include <utility>

namespace weft::loop {

namespace {

struct Term {
  std::int32_t x, greatest, weight = -1;
  std::int32_t is_finite = -1;  // where the exponentials are relative to 0 unless this holds of the greatest: logsumexp
};

const Instruction& at(const Kernel& kernel, std::int32_t i) { return kernel.body[static_cast<std::size_t>(i)]; }
bool is(const Instruction& it, Op op) { return it.kind == Kind::apply && it.op == op; }

// exp(x - greatest), where `greatest` is the amax of x.
bool is_exponential(const Kernel& kernel, std::int32_t i, Term& term) {
  if (!is(at(kernel, i), Op::exp)) return false;
  const Instruction& difference = at(kernel, at(kernel, i).args[0]);
  if (!is(difference, Op::sub)) return false;
  term.greatest = difference.args[1];
  if (const Instruction& chosen = at(kernel, term.greatest); is(chosen, Op::where)) {
    const Instruction &condition = at(kernel, chosen.args[0]), &otherwise = at(kernel, chosen.args[2]);
    if (!is(condition, Op::isfinite) || condition.args[0] != chosen.args[1] || otherwise.kind != Kind::constant ||
        otherwise.bits != 0)
      return false;
    term.is_finite = chosen.args[0];
    term.greatest = chosen.args[1];
  }
  const Instruction& greatest = at(kernel, term.greatest);
  if (greatest.kind != Kind::reduce || greatest.op != Op::amax || !greatest.is(ReductionKind::whole) ||
      greatest.args[0] != difference.args[0])
    return false;
  term.x = difference.args[0];
  return true;
}

bool is_term(const Kernel& kernel, std::int32_t i, Term& term) {
  if (is_exponential(kernel, i, term)) return true;
  const Instruction& product = at(kernel, i);
  if (!is(product, Op::mul)) return false;
  for (const int side : {0, 1}) {
    term = {};
    if (!is_exponential(kernel, product.args[side], term) || term.is_finite >= 0) continue;
    term.weight = product.args[1 - side];
    return at(kernel, term.weight).phase <= at(kernel, term.x).phase;
  }
  return false;
}

// Appends instructions whose operands are numbered as in the kernel before.
class Body {
 public:
  explicit Body(std::size_t before) { number_.reserve(before); }
  std::int32_t number(std::int32_t before) const { return number_[static_cast<std::size_t>(before)]; }
  std::int32_t emit(const Instruction& it) {
    body.push_back(it);
    return static_cast<std::int32_t>(body.size()) - 1;
  }
  void is_now(std::int32_t number) { number_.push_back(number); }
  Instruction renumbered(Instruction it) const {
    for (std::int32_t& arg : it.args)
      if (arg >= 0) arg = number(arg);
    it.index = dims::substitute(it.index, [&](const DimNode* atom) {
      return atom->kind == DimKind::value ? dims::value(number(static_cast<std::int32_t>(atom->number)), atom->extent)
                                          : Dim::from_node(atom);
    });
    return it;
  }

  std::vector<Instruction> body;

 private:
  std::vector<std::int32_t> number_;
};

// Where the greatest element is infinite or NaN, the exponentials relative to 0 add up to its own: 0, inf or NaN.
std::int32_t sum_where_finite(Body& to, const Term& term, std::int32_t sum) {
  Instruction it;
  it.kind = Kind::apply;
  it.op = Op::exp;
  it.dtype = to.body[static_cast<std::size_t>(sum)].dtype;
  it.args[0] = to.number(term.greatest);
  const std::int32_t own = to.emit(it);
  it.op = Op::where;
  it.args[0] = to.number(term.is_finite);
  it.args[1] = sum;
  it.args[2] = own;
  return to.emit(it);
}

}  // namespace

void sum_online(Kernel& kernel) {
  bool found = false;
  Body to(kernel.body.size());
  for (const Instruction& before : kernel.body) {
    Instruction it = to.renumbered(before);
    Term term{};
    if (it.kind != Kind::reduce || it.op != Op::sum || !it.is(ReductionKind::whole) || !is_floating(it.dtype) ||
        !is_term(kernel, before.args[0], term)) {
      to.is_now(to.emit(it));
      continue;
    }
    found = true;
    it.reduction = ReductionKind::online;
    it.args[0] = to.number(term.x);
    it.args[1] = to.number(term.greatest);
    it.args[2] = term.weight < 0 ? -1 : to.number(term.weight);
    const std::int32_t sum = to.emit(it);
    to.is_now(term.is_finite < 0 ? sum : sum_where_finite(to, term, sum));
  }
  if (!found) return;
  kernel.body = std::move(to.body);
  std::vector<bool> stores;
  for (const Instruction& it : kernel.body) stores.push_back(it.kind == Kind::store);
  keep_only(kernel, stores);
  settle(kernel);
}

}  // namespace weft::loop
