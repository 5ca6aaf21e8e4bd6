// Train a GPT-2 on the characters of any text, and let it write some. Forward, backward and the update are one compiled
// step, which also draws its own batch.
#include "examples/support/characters.hpp"

using namespace weft;

struct State {  // all that a checkpoint holds
  State(const support::CharacterModel& of, Device device, std::int64_t seed)
      : shape(of),
        model(of.make(device)),
        optimizer(model, {.weight_decay = 0.1}),
        batches(static_cast<std::uint64_t>(seed)) {}

  support::CharacterModel shape;
  models::Gpt2 model;
  optim::AdamW optimizer;
  Generator batches;
  std::int64_t step = 0;
  WEFT_MEMBERS(shape, model, optimizer, batches, step)
};

// The loss of rows of context + 1 characters, each of which is to be told from those before it.
Tensor loss_of(const models::Gpt2& model, const Tensor& rows) {
  const Tensor logits = model(slice(rows, 1, 0, -1));
  return nn::cross_entropy(flatten(logits, 0, 1), flatten(slice(rows, 1, 1)));
}
// Rows of the text that begin at these places [N].
Tensor rows_at(const Tensor& text, const Tensor& places, std::int64_t context) {
  return gather(text, unsqueeze(places, 1) + to(arange(context + 1), text.device()));
}

struct Settings {
  std::int64_t steps = 1000, batch = 32;
  double lr = 2e-3;
  DType dtype = DType::f32;
};
Tensor train_step(models::Gpt2& model, optim::AdamW& optimizer, Generator& batches, const Tensor& text,
                  const Settings& s) {
  const std::int64_t context = model.config.context;
  const Tensor places = randint({s.batch}, 0, std::int64_t(text.size(0)) - context, batches);
  auto [loss, gradients] = value_and_grad(
      [&](models::Gpt2& m) {
        return support::in_dtype(
            m, s.dtype, [&](auto& m) { return loss_of(m, rows_at(text, to(places, text.device()), context)); });
      },
      model);
  nn::clip_grad_norm(gradients, 1.0);
  optimizer.lr = optim::cosine_annealing_lr(s.lr, optimizer.steps, static_cast<double>(s.steps), s.lr / 10);
  optimizer.update(model, gradients);
  return loss;
}

// The shape of a checkpoint, which the text's characters and the sizes on the command line must fit.
support::CharacterModel resumed(const std::string& file, const support::CharacterModel& asked,
                                const support::Given& given) {
  support::CharacterModel shape;
  io::load(file, {{"shape", shape}}, {.allow_extra = true});
  const auto require = [&](const char* option, std::int64_t wanted, std::int64_t found) {
    if (given.has(option) && wanted != found)
      support::fail(std::string(option) + " is " + std::to_string(wanted) + ", and that of the model in " + file +
                    " is " + std::to_string(found));
  };
  require("--context", asked.context, shape.context);
  require("--width", asked.width, shape.width);
  require("--layers", asked.layers, shape.layers);
  require("--heads", asked.heads, shape.heads);
  return shape;
}

int main(int count, char** arguments) {
  return support::guarded([&] {
    support::Training run;
    support::CharacterModel asked;
    std::string path = "/usr/share/common-licenses/GPL-3", prompt;
    std::int64_t write = 300;
    Settings settings;
    constexpr support::Sign positive = support::Sign::positive;
    const support::Given given =
        support::parse(count, arguments, run,
                       {{"--text", path, "FILE: what to learn from"},
                        {"--steps", settings.steps, "N: of training"},
                        {"--batch", settings.batch, "N: rows of a step", positive},
                        {"--context", asked.context, "N: characters that the model sees", positive},
                        {"--width", asked.width, "N: of the model, a multiple of --heads", positive},
                        {"--layers", asked.layers, "N: of the model", positive},
                        {"--heads", asked.heads, "N: of a layer", positive},
                        {"--lr", settings.lr, "X: the greatest learning rate", positive},
                        {"--prompt", prompt, "TEXT: what the written text begins with"},
                        {"--write", write, "N: characters to write"}});
    if (run.quick) {
      given.set_unless_given<std::int64_t>("--steps", settings.steps, 40);
      given.set_unless_given<std::int64_t>("--batch", settings.batch, 16);
      given.set_unless_given<std::int64_t>("--width", asked.width, 64);
      given.set_unless_given<std::int64_t>("--layers", asked.layers, 2);
    }
    if (!run.resumes() && asked.width % asked.heads != 0)
      support::fail("--width is " + std::to_string(asked.width) + ", which is no multiple of --heads, " +
                    std::to_string(asked.heads));
    settings.dtype = run.dtype();
    const std::string text = data::read_text(path);
    if (!run.resumes()) asked.alphabet = support::Alphabet(text);
    State state(run.resumes() ? resumed(run.resume, asked, given) : asked, run.device(), run.seed);
    const std::int64_t context = state.shape.context;
    const auto length = static_cast<std::int64_t>(text.size()), held = length / 10;
    if (held <= context)
      support::fail(path + " has " + std::to_string(length) + " characters: a context of " + std::to_string(context) +
                    " wants at least " + std::to_string(10 * context + 10));
    if (!given.has("--prompt")) prompt = support::beginning(text, std::min<std::int64_t>(8, context));
    if (write > 0) support::check_prompt(prompt, state.shape.alphabet, context);
    const Tensor all = to(state.shape.alphabet.encode(text), run.device());
    const Tensor seen = slice(all, 0, 0, length - held), unseen = slice(all, 0, length - held);

    auto step = compile(train_step);
    std::printf("%lld characters, %lld different; %lld parameters\n", static_cast<long long>(length),
                static_cast<long long>(state.shape.alphabet.size),
                static_cast<long long>(nn::num_parameters(state.model)));
    const bool whole = support::train(
        run, state, settings.steps, [&] { return step(state.model, state.optimizer, state.batches, seen, settings); });

    // The mean over the held-out tenth, whose rows follow one another.
    auto evaluate = compile([](const models::Gpt2& model, const Tensor& rows) { return loss_of(model, rows); });
    double sum = 0;
    const std::int64_t rows = (held - 1) / context;
    for (std::int64_t first = 0; first < rows; first += 64) {
      const std::int64_t some = std::min<std::int64_t>(64, rows - first);
      const Tensor places = to((arange(some) + first) * context, run.device());
      sum += evaluate(state.model, rows_at(unseen, places, context)).item() * static_cast<double>(some);
    }
    std::printf("held-out loss: %.4f\n", sum / static_cast<double>(rows));
    if (!whole || write == 0) return;
    Generator draws(static_cast<std::uint64_t>(run.seed));
    support::generate(state.model, state.shape.alphabet, prompt, write, 0.8, 0, draws);
  });
}
