// An HTTP server of embeddings (cpp-httplib), of whatever computes them: POST /embed, GET /health, GET /metrics. It
// ends on SIGTERM and SIGINT, when everything that was accepted has its answer (docs/serving.md).
#pragma once
#include <linux/filter.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include <httplib.h>
#include <nlohmann/json.hpp>

#include "examples/support/batcher.hpp"
#include "examples/support/run.hpp"

namespace support {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                // 0: any that is free
  std::size_t connections = 128;  // that are served at once, each by a thread; more of them wait
  std::size_t most_bytes = 1 << 20;
  std::size_t most_tokens = 256;        // of a text; the rest of a longer text is left out, more numbers are refused
  std::int64_t vocabulary = 0;          // how many tokens there are
  std::chrono::seconds idle{5};         // that a connection waits for its next request, or for the rest of one
  std::chrono::seconds to_the_end{30};  // that the end waits for answers
};

// A text's tokens, at most so many. Empty: there is no tokenizer, and requests have tokens.
using Tokenize = std::function<Tokens(const std::string& text, std::size_t most)>;

class EmbeddingServer {
 public:
  EmbeddingServer(const ServerOptions& options, const BatchingOptions& batching, Tokenize tokenize, Embed embed)
      : options_(options),
        batching_(batching),
        tokenize_(std::move(tokenize)),
        batcher_(batching, std::move(embed)),
        seconds_(latency_bounds) {
    server_.new_task_queue = [this] { return new httplib::ThreadPool(options_.connections); };
    server_.set_socket_options([this](int socket) {  // the library's own let two servers share a port
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
      listener_ = socket;
    });
    server_.set_tcp_nodelay(true);
    server_.set_payload_max_length(options_.most_bytes);
    server_.set_keep_alive_max_count(SIZE_MAX);
    server_.set_keep_alive_timeout(options_.idle.count());
    server_.set_read_timeout(options_.idle);
    server_.set_write_timeout(options_.idle);
    // Answers are given whole: of 2000 ranges the library would put the answer 2000 times into one.
    server_.set_pre_routing_handler([](const httplib::Request& request, auto&) {
      const_cast<httplib::Request&>(request).ranges.clear();  // the library's own, which is not const
      return httplib::Server::HandlerResponse::Unhandled;
    });
    server_.Post("/embed", [this](const auto& request, auto& response, const auto& read) {
      const auto begin = std::chrono::steady_clock::now();
      response.set_content(answer_to(read_body(request, response, read)), "application/json");
      seconds_.add(seconds_since(begin));
    });
    server_.Get("/embed", [](const auto&, auto& response) {
      response.set_header("Allow", "POST");
      throw Refusal{405, "/embed is asked by POST"};
    });
    server_.Get("/health", [this](const auto&, auto& response) {
      if (ending_) throw Refusal{503, "the server ends"};
      response.set_content("{\"status\":\"ok\"}", "application/json");
    });
    server_.Get("/metrics", [this](const auto&, auto& response) {
      MetricsText metrics;
      metrics.counts("serve_requests_total", "Answers by status.", answers_);
      metrics.histogram("serve_request_seconds", "Time from a request of /embed to its answer.", seconds_);
      batcher_.print(metrics);
      response.set_content(metrics.text(), "text/plain; version=0.0.4");
    });
    server_.set_exception_handler([](const auto&, auto& response, std::exception_ptr thrown) {
      try {
        std::rethrow_exception(thrown);
      } catch (const Refusal& refusal) {
        response.status = refusal.status;
        response.body = refusal.why;
      } catch (const std::exception& error) {
        response.status = 500;
        response.body = error.what();
      }
    });
    server_.set_error_handler([](const auto&, auto& response) {
      if (response.body.empty()) response.body = sentence(response.status);
      if (response.status == 503) response.set_header("Retry-After", "1");
      const nlohmann::json answer = {{"error", response.body}};
      response.set_content(answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), "application/json");
    });
    server_.set_post_routing_handler([this](const auto&, auto& response) {
      if (ending_) response.headers.erase("Keep-Alive"), response.set_header("Connection", "close");
    });
    server_.set_logger([this](const auto&, const auto& response) { answers_.add(response.status); });
  }

  // Serves until SIGTERM or SIGINT has come and what was accepted is answered. Gives the number of answers. Throws
  // Error where the port can't be had, or the system gives no more connections.
  std::uint64_t run() {
    const int port = options_.port ? options_.port : server_.bind_to_any_port(options_.host);
    if (port < 0 || (options_.port && !server_.bind_to_port(options_.host, port)))
      fail("port " + std::to_string(options_.port) + " of " + options_.host +
           " can't be had: another program may have it");
    listen(listener_, 512);  // the library has taken a queue of 5
    std::printf("serves on port %d\n", port);
    std::fflush(stdout);
    std::thread ending([this] { end_on_signal(); });
    server_.listen_after_bind();
    ended_ = true;
    const bool was_asked = ending_;
    if (!was_asked) pthread_kill(ending.native_handle(), SIGTERM);
    ending.join();
    if (!was_asked) fail("the system gives no more connections");
    return answers_.all();
  }

  // Blocks the signals that end the server, for this thread and those that it starts.
  static void block_signals() {
    const sigset_t set = signals();
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
  }

 private:
  static sigset_t signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int each : {SIGTERM, SIGINT}) sigaddset(&set, each);
    return set;
  }

  // Nobody who has a connection loses a request: first the system takes no new connection, then those that it has taken
  // come to the server, then the socket is closed. A second signal ends the program at once.
  void end_on_signal() {
    const sigset_t set = signals();
    int signal = 0;
    sigwait(&set, &signal);
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    ending_ = true;
    sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
    const sock_fprog filter = {1, &nothing};
    setsockopt(listener_, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    shutdown(listener_, SHUT_RD);
    const auto begin = std::chrono::steady_clock::now();
    while (!ended_ && std::chrono::steady_clock::now() < begin + options_.to_the_end)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (ended_) return;
    std::fprintf(stderr, "connections are still open after %lld s: they are given up\n",
                 static_cast<long long>(options_.to_the_end.count()));
    std::_Exit(1);
  }

  static const char* sentence(int status) {
    switch (status) {
      case 404: return "there are POST /embed, GET /health and GET /metrics";
      case 413: return "the body is too large";
      case 415: return "the body's encoding is unknown";
      default: return "this is no request that the server understands";
    }
  }

  // All of it is read, as what is left would be taken for the next request; no more than what is allowed is kept.
  std::string read_body(const httplib::Request& request, httplib::Response& response,
                        const httplib::ContentReader& read) const {
    std::string body;
    const auto receive = [&](const char* data, std::size_t size) {
      body.append(data, std::min(size, options_.most_bytes + 1 - body.size()));
      return true;
    };
    const bool whole =
        request.is_multipart_form_data() ? read([](const auto&) { return true; }, receive) : read(receive);
    if (body.size() > options_.most_bytes || response.status == 413)
      throw Refusal{413, "the body has more than " + std::to_string(options_.most_bytes) + " bytes"};
    if (!whole)
      throw Refusal{response.status > 0 ? response.status : 400, "the body was cut off, or is not encoded as it says"};
    return body;
  }

  std::string answer_to(const std::string& body) {
    const std::vector<Vector> vectors = batcher_.embed(texts_of(body));
    std::string answer = "{\"embeddings\":[";
    for (const Vector& vector : vectors) {
      answer += answer.back() == '[' ? "[" : ",[";
      for (const float value : vector) {
        char digits[32];
        answer.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
        answer += ',';
      }
      answer.back() = ']';
    }
    return answer + "]}";
  }

  std::vector<Tokens> texts_of(const std::string& body) const {
    const auto refuse = [](const std::string& why) { throw Refusal{400, why}; };
    nlohmann::json request;
    try {
      constexpr int deepest = 4;  // an object, a list of texts, a list of numbers
      request = nlohmann::json::parse(body, [&](int depth, auto, const auto&) {
        if (depth > deepest) refuse("the body has lists in lists in lists");
        return true;
      });
    } catch (const nlohmann::json::exception&) {
      refuse("the body is no JSON");
    }
    const std::string expected =
        tokenize_ ? "\"inputs\": a list of texts, or of lists of tokens" : "\"inputs\": a list of lists of tokens";
    if (!request.is_object() || !request.contains("inputs") || !request["inputs"].is_array())
      refuse("the body is no object with " + expected);
    const nlohmann::json& inputs = request["inputs"];
    if (inputs.empty() || inputs.size() > batching_.texts)
      refuse("inputs has " + std::to_string(inputs.size()) + " texts, a request may have 1 to " +
             std::to_string(batching_.texts));
    std::vector<Tokens> texts;
    for (const nlohmann::json& input : inputs) {
      const std::string name = "inputs[" + std::to_string(texts.size()) + "]";
      if (input.is_string() && tokenize_) {
        texts.push_back(tokenize_(input.get_ref<const std::string&>(), options_.most_tokens));
        continue;
      }
      if (!input.is_array()) refuse(name + " is not what is expected: " + expected);
      if (input.empty() || input.size() > options_.most_tokens)
        refuse(name + " has " + std::to_string(input.size()) + " tokens, a text may have 1 to " +
               std::to_string(options_.most_tokens));
      Tokens& tokens = texts.emplace_back();
      for (const nlohmann::json& token : input) {
        const bool is_token =
            token.is_number_integer() && (!token.is_number_unsigned() || token.get<std::uint64_t>() <= INT64_MAX);
        if (!is_token || token.get<std::int64_t>() < 0 || token.get<std::int64_t>() >= options_.vocabulary)
          refuse(name + " has a token that is no integer from 0 to " + std::to_string(options_.vocabulary - 1));
        tokens.push_back(token.get<std::int64_t>());
      }
    }
    return texts;
  }

  const ServerOptions options_;
  const BatchingOptions batching_;
  const Tokenize tokenize_;
  Batcher batcher_;
  StatusCounts answers_;
  Histogram seconds_;
  httplib::Server server_;
  int listener_ = -1;
  std::atomic<bool> ending_ = false, ended_ = false;
};

}  // namespace support
