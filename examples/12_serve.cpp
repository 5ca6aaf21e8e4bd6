// Serve embeddings of sentences over HTTP, from a package: the program that serves neither traces nor compiles, and has
// no model.
//
//   12_serve --make minilm.weft --weights build/weights/minilm      # once; without --weights the model is random
//   12_serve --package minilm.weft --vocabulary build/weights/minilm/vocab.txt
//   curl localhost:8080/embed -d '{"inputs": ["Cats sleep for most of the day."]}'
#include <algorithm>

#include <weft/package.hpp>

#include "examples/models/bert.hpp"
#include "examples/support/embedding_server.hpp"
#include "examples/support/wordpiece.hpp"

using namespace weft;

extern "C" void omp_set_num_threads(int);  // OpenMP's: of the parallel loops of the calling thread

// The numbers that a server must know: how many tokens there are, and how many a text may have.
struct Limits {
  Buffer numbers;
  WEFT_MEMBERS(numbers)
};

// Writes a package with three functions: `embed_text`, of one text of any length, `embed`, of several, whose tokens
// follow one another without padding, and `limits`, of which tokens there are and how many a text may have.
void make(const std::string& path, const std::string& weights, const models::BertConfig& config) {
  models::Bert model(config);
  if (!weights.empty())
    io::load(weights + "/model.safetensors", model, {.allow_extra = true, .renames = models::bert_names});
  nn::eval(model);
  PackageWriter writer;
  const auto embed_text =
      compile([](const models::Bert& model, const Tensor& tokens,
                 const Tensor& mask) { return models::sentence_embedding(model(tokens, mask), mask); },
              bind(model));
  const auto integers = [](Sizes sizes) { return zeros(sizes, {.dtype = DType::i64}); };
  const Tensor text = integers({1, 8}), seen = integers({1, 8});
  for (const Tensor& each : {text, seen}) mark_dynamic(each, 1, 2, config.context);
  writer.add({"embed_text", {.weights = true}}, embed_text, text, seen);
  const auto embed = compile(
      [](const models::Bert& model, const Tensor& tokens, const Tensor& row, const Tensor& mask, const Tensor& back) {
        return models::sentence_embedding(model(tokens, {row, mask, back}), mask);
      },
      bind(model));
  const Tensor tokens = integers({12}), row = integers({2, 8}), mask = integers({2, 8}), back = integers({12});
  for (const Tensor& each : {tokens, back}) mark_dynamic(each, 0);
  for (const Tensor& each : {row, mask}) mark_dynamic(each, 0), mark_dynamic(each, 1, 2, config.context);
  writer.add({"embed", {.weights = true}}, embed, tokens, row, mask, back);
  Limits limits{Buffer(from_list({config.vocab_size, config.context}))};
  writer.add({"limits", {.weights = true}}, compile([](const Limits& of) { return of.numbers + 0; }, bind(limits)));
  writer.write(path);
}

// The least length is 2: a size of 1 is a kind of its own, and there is no function of it.
template <class Function>
Tensor of_one(const Function& embed_text, const support::Batch& batch) {
  const auto tokens = std::ranges::count(batch.mask, 1);
  const auto length = static_cast<std::size_t>(std::max<std::ptrdiff_t>(tokens, 2));
  const Sizes sizes{1, length};
  return embed_text(from_span(std::span(batch.tokens).first(length), sizes),
                    from_span(std::span(batch.mask).first(length), sizes));
}

// Leaves out the padding (models::TextRows).
template <class Function>
Tensor of_several(const Function& embed, const support::Batch& batch) {
  std::vector<std::int64_t> tokens, row(batch.tokens.size()), back;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (batch.mask[i] == 0) continue;
    row[i] = std::ssize(tokens);
    tokens.push_back(batch.tokens[i]);
    back.push_back(static_cast<std::int64_t>(i));
  }
  const Sizes sizes{batch.count, batch.length}, rows{tokens.size()};
  return embed(from_span(tokens, rows), from_span(row, sizes), from_span(batch.mask, sizes), from_span(back, rows));
}

int main(int count, char** arguments) {
  return support::guarded([&] {
    support::EmbeddingServer::block_signals();  // for all threads
    support::Run run;
    std::string making, package = "minilm.weft", weights, vocabulary;
    models::BertConfig config{.width = 384, .hidden = 1536, .layers = 6};
    support::ServerOptions options;
    support::BatchingOptions batching;
    std::int64_t port = 8080, workers = 2, texts = 32, waiting = 256, connections = 128, most_bytes = 1 << 20;
    double delay = 2;
    support::parse_all(
        count, arguments, run,
        {{"--package", package, "FILE: the package that is served"},
         {"--vocabulary", vocabulary, "FILE: tokens, one a line; without it requests have numbers of tokens"},
         {"--host", options.host, "ADDRESS: that is listened at"},
         {"--port", port, "N: that is listened at; 0: any that is free"},
         {"--workers", workers, "N: threads that call the package", support::Sign::positive},
         {"--batch", texts, "N: texts of a batch, and of a request, at most", support::Sign::positive},
         {"--delay", delay, "MILLISECONDS: that a request waits for others"},
         {"--queue", waiting, "N: texts that wait at most; a request beyond them is answered with 503"},
         {"--connections", connections, "N: that are served at once", support::Sign::positive},
         {"--bytes", most_bytes, "N: of a body at most", support::Sign::positive},
         {"--make", making, "FILE: make a package, and serve nothing"},
         {"--weights", weights, "FOLDER: what examples/fetch/weights minilm has got; without it they are random"},
         {"--width", config.width, "N: of the model that is made, a multiple of 32", support::Sign::positive},
         {"--layers", config.layers, "N: of the model that is made"}});
    if (run.device() != Device::cpu()) support::fail("this server's packages are for the CPU");
    if (!making.empty()) {
      if (config.width % 32 != 0) support::fail("--width is a multiple of 32, not " + std::to_string(config.width));
      config.hidden = 4 * config.width, config.heads = config.width / 32;
      if (!vocabulary.empty()) config.vocab_size = static_cast<std::int64_t>(data::read_lines(vocabulary).size());
      return make(making, weights, config);
    }

    const Package loaded = load_package(package);
    const auto embed_text = loaded.function<Tensor(const Tensor&, const Tensor&)>("embed_text");
    const auto embed = loaded.function<Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&)>("embed");
    const Tensor limits = loaded.function<Tensor()>("limits")();
    options.vocabulary = limits.data<std::int64_t>()[0];
    options.most_tokens = std::min<std::size_t>(256, static_cast<std::size_t>(limits.data<std::int64_t>()[1]));
    options.port = static_cast<int>(port);
    options.connections = static_cast<std::size_t>(connections);
    options.most_bytes = static_cast<std::size_t>(most_bytes);
    batching.texts = static_cast<std::size_t>(texts), batching.waiting = static_cast<std::size_t>(waiting);
    batching.workers = static_cast<std::size_t>(workers);
    batching.delay = std::chrono::microseconds(static_cast<std::int64_t>(delay * 1000));
    support::Tokenize tokenize;
    if (!vocabulary.empty())
      tokenize = [words = support::WordPiece(vocabulary, options.vocabulary)](
                     const std::string& text, std::size_t most) { return words.encode(text, most); };
    const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency() / workers));
    support::EmbeddingServer server(options, batching, tokenize, [&](const support::Batch& batch) {
      omp_set_num_threads(threads);  // of this worker
      const Tensor vectors = batch.count == 1 ? of_one(embed_text, batch) : of_several(embed, batch);
      const auto values = vectors.data<float>();
      return std::vector<float>(values.begin(), values.end());
    });
    std::printf("ended after %llu answers\n", static_cast<unsigned long long>(server.run()));
  });
}
