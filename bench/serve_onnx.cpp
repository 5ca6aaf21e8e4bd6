// The server of examples/12_serve on ONNX Runtime: serve_onnx LIBRARY MODEL WORKERS BATCH DELAY_MICROSECONDS.
#include <cstdio>
#include <cstdlib>

#include "examples/support/embedding_server.hpp"
#include "onnxruntime.hpp"

int main(int count, char** arguments) {
  return support::guarded([&] {
    if (count != 6) support::fail("serve_onnx LIBRARY MODEL WORKERS BATCH DELAY_MICROSECONDS");
    support::EmbeddingServer::block_signals();
    support::ServerOptions options{.port = 0, .vocabulary = 30522};
    support::BatchingOptions batching;
    batching.multiple = 1;  // no more padding than it needs
    batching.workers = std::strtoul(arguments[3], nullptr, 10);
    batching.texts = std::strtoul(arguments[4], nullptr, 10);
    batching.delay = std::chrono::microseconds(std::atol(arguments[5]));
    const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency() / batching.workers));
    const bench::OnnxRuntime embed(arguments[1], arguments[2], threads);
    support::EmbeddingServer server(options, batching, {}, [&](const support::Batch& batch) {
      return embed(batch.tokens, batch.mask, batch.count, batch.length);
    });
    server.run();
  });
}
