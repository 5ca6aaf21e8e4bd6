// Write text with a model that 05_char_gpt has saved, a character at a time, and tell the rate.
#include "examples/support/characters.hpp"

using namespace weft;

int main(int count, char** arguments) {
  return support::guarded([&] {
    support::Run run;
    std::string path, prompt = "The ";
    std::int64_t write = 1 << 20, top = 0, seed = 1;
    double temperature = 0.8;
    support::parse(
        count, arguments, run,
        {{"--model", path, "FILE: a checkpoint of 05_char_gpt; without it a model that has learned nothing"},
         {"--prompt", prompt, "TEXT: what the text begins with"},
         {"--write", write, "N: characters at most; the model's context ends it"},
         {"--temperature", temperature, "X: 1 as the model says, less: likelier characters, 0: the likeliest"},
         {"--top", top, "N: only the N likeliest characters; 0: all"},
         {"--seed", seed, "N: of the draws, and of a model that has learned nothing"}});
    weft::seed(static_cast<std::uint64_t>(seed));
    support::CharacterModel shape;
    if (path.empty()) shape.alphabet = support::Alphabet(prompt + "the quick brown fox jumps over the lazy dog.\n");
    if (!path.empty()) io::load(path, {{"shape", shape}}, {.allow_extra = true});
    models::Gpt2 model = shape.make({});
    if (!path.empty()) io::load(path, {{"model", model}}, {.allow_extra = true});
    nn::to(model, run.device());
    if (run.bf16) nn::to(model, DType::bf16);
    nn::eval(model);
    Generator draws(static_cast<std::uint64_t>(seed));
    const support::Timed timed = support::generate(model, shape.alphabet, prompt, write, temperature, top, draws);
    if (timed.calls > 0) std::printf("%.0f characters a second\n", static_cast<double>(timed.calls) / timed.seconds);
  });
}
