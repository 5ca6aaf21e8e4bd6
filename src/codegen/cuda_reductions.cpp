#include "codegen/cuda_reductions.hpp"

#include <algorithm>

namespace weft::codegen {

using loop::Instruction;
using loop::Kind;
using loop::ReductionKind;
using loop::State;

namespace {

const char* operation(Op op) {
  return op == Op::sum    ? "Sum"
         : op == Op::prod ? "Product"
         : op == Op::amax ? "Greatest"
         : op == Op::amin ? "Least"
                          : "LogSum";
}

}  // namespace

std::string DeviceReductions::accumulated(int i) const {
  const DType dtype = at(at(i).args[0]).dtype;
  return is_floating(dtype) ? element_type(dtype) : "long";
}

std::string DeviceReductions::reduction_type(int i) const {
  if (at(i).kind == Kind::scan)
    return std::string("Scan<") + operation(at(i).op) + ", " + accumulated(i) + ", " +
           number(analysis_.form == Form::rows ? team_.width : 1) + ">";
  if (at(i).op == Op::argmax) return "ArgMax<" + accumulated(i) + ">";
  if (at(i).is(ReductionKind::product)) return "ProductTile<" + accumulated(i) + ">";
  if (at(i).is(ReductionKind::online)) return "OnlineSum<" + accumulated(i) + ">";
  if (const int load = load_of_twos(i); load >= 0)
    return std::string("ReductionOfTwos<") + operation(at(i).op) + ", " + memory_type(at(load).dtype) + ">";
  return std::string("Reduction<") + operation(at(i).op) + ", " + accumulated(i) + ">";
}

std::string DeviceReductions::registers(int i) const {
  if (state(i) == State::lanes && packs_columns()) return "[" + number(team_.width) + "]";
  return state(i) == State::columns ? "[" + number(team_.turns) + "][" + number(team_.width) + "]" : "";
}

std::string DeviceReductions::held(int i) const {
  if (state(i) == State::lanes && packs_columns()) return "r" + number(i) + "[j]";
  return "r" + number(i) + (state(i) == State::columns ? element(true) : "");
}

std::string DeviceReductions::operand(int i) const {
  const int from = at(i).args[0];
  return is_floating(at(from).dtype) ? v(from) : "long(" + v(from) + ".value)";
}

void DeviceReductions::begin_scan(int i) {
  const int start = at(i).kind == Kind::scan ? at(i).args[1] : -1;
  if (start < 0) return;
  line("r" + number(i) + ".carry = " + (is_floating(at(start).dtype) ? v(start) : "long(" + v(start) + ".value)") +
       ";");
}

int DeviceReductions::load_of_twos(int i) const {
  const Instruction& it = at(i);
  if (it.kind != Kind::reduce || (it.op != Op::amax && it.op != Op::amin) || state(i) != State::row ||
      analysis_.form != Form::rows || accumulated(i) != "float" || !whole() || team_.width % 2 != 0)
    return -1;
  const int from = at(it.args[0]).kind == Kind::cast ? at(it.args[0]).args[0] : it.args[0];
  const Instruction& load = at(from);
  if (load.kind != Kind::load || load.args[0] >= 0 || !loop::is_contiguous(kernel_, analysis_, from) ||
      (load.dtype != DType::bf16 && load.dtype != DType::f16) || loop::has_scans(kernel_))
    return -1;
  const auto has = [](const std::vector<loop::Step>& walk, int instruction) {
    return std::ranges::any_of(walk, [&](const loop::Step& step) {
      return step.instruction == instruction && step.how != loop::Step::How::recall &&
             step.how != loop::Step::How::reload;
    });
  };
  return std::ranges::any_of(analysis_.walks, [&](const auto& walk) { return has(walk, i) && has(walk, from); }) ? from
                                                                                                                 : -1;
}

void DeviceReductions::accumulate(int i) {
  if (const int load = load_of_twos(i); load >= 0)
    return line("if (j % 2 == 1) r" + number(i) + ".add(p" + number(load) + ".two(j));");
  std::string x = operand(i);
  if (at(i).op == Op::argmax) x += ", long(" + text_of(at(i).index) + ")";
  if (at(i).is(ReductionKind::online) && at(i).args[2] >= 0) x += ", " + v(at(i).args[2]);
  if (at(i).kind == Kind::scan) x = (team_.width > 1 ? "j, " : "0, ") + x;
  line(held(i) + ".add(" + x + ");");
}

std::string DeviceReductions::scanned(int i) const {
  const std::string now = analysis_.form == Form::rows
                              ? std::string("r") + number(i) + ".at(" + (team_.width > 1 ? "j)" : "0)")
                              : "r" + number(i) + ".next(" + operand(i) + ")";
  return accumulated(i) == "long" ? std::string("convert<") + memory_type(at(i).dtype) + ">(Integer<long>(" + now + "))"
                                  : now;
}

std::string DeviceReductions::result(int i) const {
  std::string joined;
  switch (state(i)) {
    case State::columns: joined = held(i) + ".folded()"; break;
    case State::tile: joined = held(i) + ".sums[turn / 4][turn % 4]"; break;
    case State::lanes:
      joined = (packs_columns() ? "join_packs_of_columns<" : "join_columns<") + number(team_.columns / team_.width) +
               ", " + number(team_.members) + ">(r" + number(i) + ")";
      break;
    default: joined = held(i) + ".joined()";
  }
  const bool is_long = at(i).op == Op::argmax || accumulated(i) == "long";
  return is_long ? std::string("convert<") + memory_type(at(i).dtype) + ">(Integer<long>(" + joined + "))" : joined;
}

void DeviceReductions::join(const std::vector<int>& reductions) {
  const bool two = reductions.size() == 2 && team_.members >= 32 && team_.members <= 512 &&
                   reduction_type(reductions[0]) == reduction_type(reductions[1]);
  std::string call = (two ? "join_two<" : "join_team<") + number(team_.members) + ">(joins";
  for (const int i : reductions) call += ", r" + number(i);
  line(call + ");");
}

std::string DeviceReductions::guard() const {
  const std::string who = storing_threads(), stores = kernel_.predicate >= 0 ? "stores" : "";
  if (who.empty() && stores.empty()) return "";
  return "if (" + stores + (who.empty() || stores.empty() ? "" : " && ") + who + ") ";
}

std::string DeviceReductions::storing_threads() const {
  switch (inside_) {
    case Inside::function: return block() + " == 0 && threadIdx.x == 0";
    case Inside::unit:
    case Inside::turn_of_rows:
      return packs_columns()                   ? "active"
             : analysis_.form == Form::columns ? "active && member == 0"
             : analysis_.form == Form::rows    ? "member == 0"
                                               : "";
    case Inside::turn: return analysis_.form == Form::columns && team_.tile == 0 ? "active" : "";
    case Inside::element: break;
  }
  return "";
}

std::string DeviceReductions::team_barrier() const {
  return analysis_.form == Form::rows && team_.members <= 32
             ? "__syncwarp(team_lanes<" + number(team_.members) + ">());"
             : "__syncthreads();";
}

}  // namespace weft::codegen
