// A connection to another process, as a stream of bytes. What is lost, since the other process has ended or its machine
// is gone, is noticed within 30 seconds.
#pragma once
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

namespace weft::runtime {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket();

  int descriptor() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }
  // False where the connection is lost.
  bool send(const void* data, std::size_t bytes) const;
  bool receive(void* data, std::size_t bytes) const;
  // A text with its length before it. Nothing where the connection is lost.
  bool send_text(const std::string& text) const;
  std::optional<std::string> receive_text() const;
  // What has not come until then is lost; zero: it is waited for.
  void wait_at_most(std::chrono::seconds longest) const;
  std::string peer_host() const;  // as a number

 private:
  int descriptor_ = -1;
};

// Listens at this address of this machine; of no host, or one that is none of this machine's, at all of its addresses.
// Port 0: one that is free. Throws Error.
Socket listen_at(const std::string& host, const std::string& port);
std::string port_of(const Socket& listener);
// The next connection; none where none comes until then.
Socket accept(const Socket& listener, std::chrono::steady_clock::time_point until);
// Tries again until then where nobody listens yet. Throws Error.
Socket connect_to(const std::string& host, const std::string& port, std::chrono::steady_clock::time_point until);

}  // namespace weft::runtime
