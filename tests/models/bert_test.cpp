#include "examples/models/bert.hpp"

#include "tests/models/support.hpp"

namespace models_test {
namespace {

TEST_CASE("BERT: Hugging Face's losses, vectors and gradients, for any number of texts of any length") {
  const auto loss = [](models::Bert& model, const List& in) {
    const Tensor x = model(in[0], in[1], in[2]), seen = unsqueeze(in[1], -1);
    const Tensor all = concat({flatten(x * seen), flatten(model.pool(x))}, 0);
    return std::pair{mean(square(all - in[3])), all};
  };
  const models::BertConfig config{
      .vocab_size = 19, .context = 12, .width = 16, .hidden = 24, .layers = 2, .heads = 4, .dropout = 0};
  const auto inputs = [](std::int64_t batch, std::int64_t length) {
    const Tensor lengths = slice(from_list<std::int64_t>({8, 5, 1, 3, 9, 2, 4}), 0, 0, batch);
    return List{integers("tokens", {batch, length}, 19),
                cast(unsqueeze(arange(length), 0) < unsqueeze(lengths, 1), DType::i64),
                integers("types", {batch, length}, 2), values("target", {batch * (length + 1) * 16})};
  };
  check_model("bert", models::Bert(config), inputs(3, 8), loss,
              {.renames = models::bert_names, .others = {inputs(5, 10), inputs(2, 9), inputs(7, 12)}});
}

}  // namespace
}  // namespace models_test
