#include "record/composite.hpp"

#include <algorithm>
#include <mutex>

#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "base/word_hash.hpp"
#include "record/place_guard.hpp"

namespace weft {

// ---- signatures -----------------------------------------------------------------------------------------------------

void Signature::add(std::uint64_t word) {
  if (count_ < capacity) {
    words_[count_++] = word;
    return;
  }
  if (all_.empty()) all_.assign(words_, words_ + count_);
  all_.push_back(word);
}
void Signature::add(const Attributes& called) {
  called.each_word([this](std::uint64_t word) { add(word); });
}
void Signature::add(const Type& type) {
  add(static_cast<std::uint64_t>(type.dtype) | std::uint64_t{type.weak} << 8 |
      static_cast<std::uint64_t>(type.device.type) << 16 | static_cast<std::uint64_t>(type.device.index) << 24 |
      static_cast<std::uint64_t>(type.shape.rank()) << 40);
  for (const Dim size : type.shape) {
    symbolic_ = symbolic_ || !size.is_constant();
    add(size.word());
  }
}

std::size_t CalleeKeyHash::operator()(std::span<const std::uint64_t> words) const { return WordsHash()(words); }
bool CalleeKeyEqual::operator()(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b) const {
  return std::ranges::equal(a, b);
}

// ---- shared callees -------------------------------------------------------------------------------------------------

namespace {

// Those of known sizes. Emptied when full: nodes keep theirs.
struct Shared {
  static constexpr std::size_t capacity = 4096;
  ProcessMutex& mutex = process_mutex(LockOrder::callees);
  CalleeTable table;
};
Shared& shared() {
  static constinit Lazy<Shared> instance;
  return instance.get();
}

std::shared_ptr<const Callee> find(const CalleeTable& table, const Signature& signature) {
  const auto found = table.find(signature.words());
  return found == table.end() ? nullptr : found->second;
}
std::vector<std::uint64_t> key_of(const Signature& signature) {
  return {signature.words().begin(), signature.words().end()};
}

}  // namespace

std::shared_ptr<const Callee> find_callee(const Signature& signature) {
  if (signature.symbolic()) return find(recorder().trace()->callees, signature);
  Shared& all = shared();
  std::lock_guard lock(all.mutex);
  return find(all.table, signature);
}

std::shared_ptr<const Callee> keep_callee(const Signature& signature, Callee made) {
  auto callee = std::make_shared<const Callee>(std::move(made));
  if (signature.symbolic()) return recorder().trace()->callees[key_of(signature)] = std::move(callee);
  Shared& all = shared();
  CalleeTable dropped;  // freed after the lock is
  std::lock_guard lock(all.mutex);
  if (all.table.size() >= Shared::capacity) all.table.swap(dropped);
  // Of two threads that recorded it, the first to end is kept.
  return all.table.try_emplace(key_of(signature), std::move(callee)).first->second;
}

// ---- bodies ---------------------------------------------------------------------------------------------------------

namespace {
// Nodes of data may be shared with others.
void forget_lines(const Graph& graph) {
  for (const Tensor& value : graph.nodes) {
    Node& node = *value.node();
    if (node.loc.file && node.op != Op::data) node.loc = {};
    if (!node.callee())
      for (const auto& body : node.bodies()) forget_lines(*body);
  }
}
}  // namespace

CallBody::CallBody(const Attributes& called)
    : loc_(recorder().loc),
      sizes_(DimEnvironment::current()),
      operation_(called_operation()),
      inside_((trace_.id = new_trace_id(), trace_)) {
  recorder().loc = loc_;
  recorder().scope = called_name(called).id;
  recorder().in_body = true;
  recorder().autocast = DType::f32;
  DimEnvironment::current() = sizes_;
  called_operation() = operation_;
}
CallBody::~CallBody() = default;

Tensor CallBody::input(const Type& type) {
  return trace_.inputs.emplace_back(Builder(loc_, 0, trace_.id).input(trace_.inputs.size(), type));
}
void CallBody::drop_checks() { trace_.effects.clear(); }
Graph CallBody::take(std::vector<Tensor> results) {
  WEFT_CHECK(trace_.effects.empty(), "a body checks nothing");
  Graph body = make_graph(std::move(trace_.inputs), std::move(results), {});
  forget_lines(body);
  return body;
}

void composite(const Attributes& called, std::span<Tensor> operands, std::span<Tensor> results, Loc loc,
               RecordBody record, CallDerivative derivative) {
  if (in_body()) return record(operands, results);
  for (Tensor& operand : operands) operand = with_plain_ones(operand, loc);
  Signature signature(0);
  signature.add(called);
  for (const Tensor& operand : operands) signature.add(type_of(operand));
  const PlaceGuard place;
  if (!recorder().scope) recorder().scope = called_name(called).id;
  const auto make = [&] {
    CallBody scope(called);
    std::vector<Tensor> inputs, made(results.size());
    for (const Tensor& operand : operands) inputs.push_back(scope.input(type_of(operand)));
    record(inputs, made);
    return Callee{called, scope.take(std::move(made)), derivative};
  };
  const Tensor value = record_call(shared_callee(signature, make), operands, loc);
  for (std::size_t i = 0; i < results.size(); ++i) results[i] = Tensor(value.node(), static_cast<unsigned>(i));
}

}  // namespace weft
