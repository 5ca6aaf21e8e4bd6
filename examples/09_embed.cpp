// Find the sentences that mean what a question means: all-MiniLM-L6-v2 (Hugging Face's file, by its own names) makes a
// vector of each sentence, and those that point the same way come first.
#include <algorithm>
#include <filesystem>

#include "examples/models/bert.hpp"
#include "examples/support/wordpiece.hpp"

using namespace weft;

constexpr std::size_t longest = 256;  // tokens of a sentence

int main(int count, char** arguments) {
  return support::guarded([&] {
    support::Run run;
    std::string folder = WEFT_WEIGHTS "/minilm", query = "How do I bake bread?", path;
    std::int64_t shown = 5;
    support::parse(count, arguments, run,
                   {{"--weights", folder, "FOLDER: what examples/fetch/weights minilm has got"},
                    {"--query", query, "TEXT: what is looked for"},
                    {"--file", path, "FILE: sentences, one a line; without it a few of the program's own"},
                    {"--show", shown, "N: of the best sentences"}});
    if (!std::filesystem::exists(folder + "/model.safetensors"))
      support::fail(folder + " has no model.safetensors: run examples/fetch/weights minilm");
    std::vector<std::string> sentences{"Mix flour, water, salt and yeast, and let the dough rest.",
                                       "The train to the coast leaves at noon.",
                                       "An oven must be hot before a loaf goes into it.",
                                       "Gradient descent walks downhill on the loss.",
                                       "Cats sleep for most of the day.",
                                       "Knead until the dough is smooth."};
    if (!path.empty()) {
      sentences.clear();
      for (const std::string& line : data::read_lines(path))
        if (!line.empty()) sentences.push_back(line);
      if (sentences.empty()) support::fail(path + " has no sentence");
    }
    const models::BertConfig config{.width = 384, .hidden = 1536, .layers = 6};
    const support::WordPiece vocabulary(folder + "/vocab.txt", config.vocab_size);
    models::Bert model(config);
    io::load(folder + "/model.safetensors", model, {.allow_extra = true, .renames = models::bert_names});
    nn::to(model, run.device());
    if (run.bf16) nn::to(model, DType::bf16);
    nn::eval(model);
    // Two compilations serve texts of any number and length: for one text, as a size of 1 is a number, and for several.
    const auto forward = compile(
        [](const models::Bert& model, const Tensor& tokens, const Tensor& mask) {
          return cast(models::sentence_embedding(model(tokens, mask), mask), DType::f32);
        },
        {.dynamic = true});
    const auto embed = [&](const std::vector<std::string>& texts) {  // [texts, width]
      const auto [tokens, mask] = vocabulary.encode(texts, longest);
      return to(forward(model, to(tokens, run.device()), to(mask, run.device())), Device::cpu());
    };
    const Tensor wanted = embed({query});
    std::vector<std::pair<double, std::string>> ranked;
    constexpr std::size_t batch = 32;
    for (std::size_t begin = 0; begin < sentences.size(); begin += batch) {
      const auto first = sentences.begin() + static_cast<std::ptrdiff_t>(begin);
      const std::vector<std::string> some(
          first, first + static_cast<std::ptrdiff_t>(std::min(batch, sentences.size() - begin)));
      const Tensor likeness = matmul(embed(some), transpose(wanted, 0, 1));
      for (std::size_t i = 0; i < some.size(); ++i)
        ranked.emplace_back(likeness[static_cast<std::int64_t>(i)][0].item(), some[i]);
    }
    std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    for (std::size_t i = 0; i < std::min(ranked.size(), static_cast<std::size_t>(shown)); ++i)
      std::printf("%.4f  %s\n", ranked[i].first, ranked[i].second.c_str());
  });
}
