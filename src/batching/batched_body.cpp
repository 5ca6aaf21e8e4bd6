#include "batching/batched_body.hpp"

#include "base/fail.hpp"

namespace weft {

std::vector<Tensor> values_of(std::span<const Batched> all) {
  std::vector<Tensor> values;
  for (const Batched& each : all) values.push_back(each.value);
  return values;
}
std::vector<bool> flags_of(std::span<const Batched> all) {
  std::vector<bool> flags;
  for (const Batched& each : all) flags.push_back(each.differs);
  return flags;
}
std::vector<Batched> batched_results(const Tensor& value, const std::vector<bool>& differ) {
  std::vector<Batched> results;
  const std::vector<Tensor> values = results_of(value);
  for (std::size_t i = 0; i < differ.size(); ++i) results.push_back({values[i], differ[i]});
  return results;
}

Batched BatchedBody::input(const Type& type, bool differs) {
  inputs_.push_back(scope_.input(type));
  return {inputs_.back(), differs};
}
void BatchedBody::append_inputs(std::vector<Batched>& to, const Graph& of_one, const std::vector<bool>& differ,
                                const Batcher& batcher, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    const Type& one = type_of(of_one.inputs[i]);
    to.push_back(input(differ[i] ? batcher.type(one) : one, differ[i]));
  }
}
Tensor BatchedBody::active(const Batcher& batcher) {
  return batcher.active().defined() ? input(type_of(batcher.active()), true).value : Tensor();
}
std::shared_ptr<const Graph> BatchedBody::take(std::vector<Tensor> outputs) {
  scope_.close();
  WEFT_CHECK(scope_.captured().empty(), "the batch of a body captures");
  return scope_.take(std::move(inputs_), std::move(outputs));
}

}  // namespace weft
