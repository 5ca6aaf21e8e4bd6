// A connection to another process, as a stream of bytes. What is lost, since the other process has ended or its machine
// is gone, is noticed within 30 seconds.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace weft::runtime {

// Until when something is waited for; nothing: for ever.
using Deadline = std::optional<std::chrono::steady_clock::time_point>;

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
  // False where the connection is lost, or not all has come in time.
  bool send(const void* data, std::size_t bytes) const;
  bool receive(void* data, std::size_t bytes, Deadline until = {}) const;
  // A text with its length before it. Nothing where the connection is lost, where the text has more than `most` bytes,
  // of which none is read then, or not all of it has come in time.
  bool send_text(const std::string& text) const;
  std::optional<std::string> receive_text(std::uint64_t most, Deadline until = {}) const;
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
