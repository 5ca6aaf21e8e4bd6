#include "loop/joining.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

#include "loop/partial_memory.hpp"

namespace weft::loop {

std::vector<CutReduction> give_memory(const Kernel& kernel, const std::vector<int>& reductions, Dim elements,
                                      Stages& stages) {
  std::vector<CutReduction> cut;
  for (const int i : reductions) {
    const Instruction& it = kernel.body[static_cast<std::size_t>(i)];
    cut.push_back({i, stages.partials.size()});
    if (it.op == Op::argmax)
      stages.partials.push_back({kernel.body[static_cast<std::size_t>(it.args[0])].dtype, elements});
    stages.partials.push_back({it.dtype, elements});
  }
  return cut;
}

void store_partials(Kernel& kernel, const std::vector<CutReduction>& reductions, const std::vector<bool>& stored,
                    const Stages& stages, Dim place) {
  std::vector<bool> keep = stored;
  const auto emit = [&](Instruction it, bool root) {
    kernel.body.push_back(it);
    keep.push_back(root);
  };
  for (const CutReduction& cut : reductions) {
    const auto i = static_cast<std::size_t>(cut.instruction);
    std::size_t memory = cut.memory;
    if (kernel.body[i].op == Op::argmax) {
      Instruction best = kernel.body[i];
      best.op = Op::amax;
      best.dtype = kernel.body[static_cast<std::size_t>(best.args[0])].dtype;
      best.index = 0;
      emit(best, false);
      emit(store_of(kernel, kernel.body.size() - 1, memory++, place, stages), true);
    }
    emit(store_of(kernel, i, memory, place, stages), true);
  }
  keep_only(kernel, keep);
  settle(kernel);
}

namespace {

class Joining {
 public:
  Joining(const Kernel& kernel, const std::vector<CutReduction>& reductions, const Stages& stages, Dim place,
          Dim length)
      : from_(kernel), reductions_(reductions), stages_(stages), place_(place), length_(length), result_(kernel) {
    result_.body.clear();
  }

  Kernel run(const std::vector<bool>& stored, Dim result_place = 0, int results = -1) {
    number_.resize(from_.body.size());
    for (std::size_t i = 0; i < from_.body.size(); ++i) {
      const Instruction& it = from_.body[i];
      const auto found = std::ranges::find(reductions_, static_cast<int>(i), &CutReduction::instruction);
      number_[i] = found == reductions_.end() ? emit(renumbered(it), stored[i]) : joined(it, found->memory);
      if (found == reductions_.end() || results < 0) continue;
      const auto memory = static_cast<std::size_t>(results + (found - reductions_.begin()));
      emit(store_of(result_, static_cast<std::size_t>(number_[i]), memory, result_place, stages_), true);
    }
    keep_only(result_, keep_);
    settle(result_);
    return std::move(result_);
  }

 private:
  std::int32_t emit(const Instruction& it, bool root = false) {
    result_.body.push_back(it);
    keep_.push_back(root);
    return static_cast<std::int32_t>(result_.body.size()) - 1;
  }
  std::int32_t apply(Op op, DType dtype, std::initializer_list<std::int32_t> args) {
    Instruction it;
    it.kind = Kind::apply;
    it.op = op;
    it.dtype = dtype;
    std::copy(args.begin(), args.end(), it.args);
    return emit(it);
  }
  std::int32_t load(std::size_t memory) {
    const auto [found, is_new] = loads_.try_emplace(memory);
    const DType dtype = stages_.partials[memory].dtype;
    if (is_new) found->second = emit(load_of(dtype, add_buffer(result_, dtype, false, memory, stages_), place_));
    return found->second;
  }
  Instruction renumbered(Instruction it) const {
    for (std::int32_t& arg : it.args)
      if (arg >= 0) arg = number_[static_cast<std::size_t>(arg)];
    it.index = dims::substitute(it.index, [&](const DimNode* atom) {
      return atom->kind == DimKind::value ? dims::value(number_[static_cast<std::size_t>(atom->number)], atom->extent)
                                          : Dim::from_node(atom);
    });
    return it;
  }

  std::int32_t joined(Instruction it, std::size_t memory) {
    const bool is_online = it.is(ReductionKind::online);
    it.reduction = ReductionKind::join;
    if (is_online) return joined_online(it, memory);
    it.args[0] = load(memory);
    if (it.op == Op::argmax) it.index = dims::value(load(memory + 1), length_);
    return emit(it);
  }
  // The sum of a chunk is that of exp(x - own), own being its greatest element. A chunk of -inf alone has no sum and
  // adds 0, or NaN where the greatest element of all is infinite or NaN too: an online sum is NaN there.
  std::int32_t joined_online(Instruction it, std::size_t memory) {
    const auto greatest = static_cast<std::size_t>(it.args[1]);
    const std::int32_t all = number_[greatest], sum = load(memory),
                       own = load(std::ranges::find(reductions_, it.args[1], &CutReduction::instruction)->memory);
    Instruction lowest;
    lowest.dtype = it.dtype;
    const double infinity = -std::numeric_limits<double>::infinity();
    std::memcpy(&lowest.bits, &infinity, sizeof infinity);
    const std::int32_t scaled =
        apply(Op::mul, it.dtype, {apply(Op::exp, it.dtype, {apply(Op::sub, it.dtype, {own, all})}), sum});
    const std::int32_t has_any = apply(Op::less, DType::boolean, {emit(lowest), own});
    it.args[0] = apply(Op::where, it.dtype, {has_any, scaled, apply(Op::sub, it.dtype, {all, all})});
    it.args[1] = it.args[2] = -1;
    return emit(it);
  }

  const Kernel& from_;
  const std::vector<CutReduction>& reductions_;
  const Stages& stages_;
  const Dim place_, length_;
  Kernel result_;
  std::vector<std::int32_t> number_;
  std::vector<bool> keep_;
  std::map<std::size_t, std::int32_t> loads_;  // by partial memory
};

}  // namespace

Kernel joined(const Kernel& kernel, const std::vector<CutReduction>& reductions, const Stages& stages,
              const JoinedParts& parts, const std::vector<bool>& stored, const JoinedResults& results) {
  return Joining(kernel, reductions, stages, parts.place, parts.length).run(stored, results.place, results.first);
}

}  // namespace weft::loop
