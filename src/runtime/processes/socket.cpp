#include "runtime/processes/socket.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>

#include "base/fail.hpp"

namespace weft::runtime {

namespace {

constexpr std::chrono::milliseconds pause(20);  // before something is tried again

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

// Those of a host and a port; of no host, all addresses of this machine. Empty, with the reason, where there are none.
Addresses find(const char* host, const std::string& port, int flags, std::string& why) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = flags;
  if (const int result = getaddrinfo(host, port.c_str(), &wanted, &found)) why = gai_strerror(result);
  return {found, freeaddrinfo};
}
// Whether there is something to read before then.
bool wait_for(int descriptor, Deadline until) {
  for (;;) {
    int left = -1;
    if (until) {
      const auto time = *until - std::chrono::steady_clock::now();
      if (time <= time.zero()) return false;
      left = static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(time).count());
    }
    pollfd waiting{descriptor, POLLIN, 0};
    const int ready = poll(&waiting, 1, left);
    if (ready > 0 || (ready < 0 && errno != EINTR)) return true;  // what follows says what is wrong
  }
}
std::string last_error() { return std::generic_category().message(errno); }

void set(const Socket& socket, int level, int option, int value) {
  setsockopt(socket.descriptor(), level, option, &value, sizeof value);
}
// A machine that is gone is noticed after 10 + 3 * 5 seconds.
void prepare(const Socket& socket) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
#ifdef TCP_KEEPIDLE
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
#endif
}
Socket open_for(const addrinfo& address) {
  return Socket(::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, address.ai_protocol));
}

// Where nobody listens yet at a port that the system also gives to clients, a socket may be connected with itself.
bool is_own_peer(const Socket& socket) {
  sockaddr_storage own{}, peer{};
  socklen_t own_length = sizeof own, peer_length = sizeof peer;
  return getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&own), &own_length) == 0 &&
         getpeername(socket.descriptor(), reinterpret_cast<sockaddr*>(&peer), &peer_length) == 0 &&
         own_length == peer_length && std::memcmp(&own, &peer, own_length) == 0;
}

// Of the first address where that succeeds.
Socket listen_at_one(const char* host, const std::string& port, std::string& why) {
  const Addresses found = find(host, port, AI_PASSIVE, why);
  for (const addrinfo* each = found.get(); each; each = each->ai_next) {
    Socket listener = open_for(*each);
    if (!listener.is_open()) continue;
    set(listener, SOL_SOCKET, SO_REUSEADDR, 1);
    if (bind(listener.descriptor(), each->ai_addr, each->ai_addrlen) == 0 && listen(listener.descriptor(), 4096) == 0)
      return listener;
    why = last_error();
  }
  return {};
}

}  // namespace

Socket::~Socket() {
  if (is_open()) close(descriptor_);
}

bool Socket::send(const void* data, std::size_t bytes) const {
  for (const char* at = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t sent = ::send(descriptor_, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent, bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}
bool Socket::receive(void* data, std::size_t bytes, Deadline until) const {
  for (char* at = static_cast<char*>(data); bytes > 0;) {
    if (until && !wait_for(descriptor_, until)) return false;
    const ssize_t received = recv(descriptor_, at, bytes, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return false;
    at += received, bytes -= static_cast<std::size_t>(received);
  }
  return true;
}
bool Socket::send_text(const std::string& text) const {
  const std::uint64_t bytes = text.size();
  return send(&bytes, sizeof bytes) && send(text.data(), text.size());
}
std::optional<std::string> Socket::receive_text(std::uint64_t most, Deadline until) const {
  std::uint64_t bytes = 0;
  if (!receive(&bytes, sizeof bytes, until) || bytes > most) return {};
  std::string text(bytes, '\0');
  if (!receive(text.data(), bytes, until)) return {};
  return text;
}
std::string Socket::peer_host() const {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  char host[NI_MAXHOST] = {};
  if (getpeername(descriptor_, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&address), length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0)
    return {};
  return host;
}

Socket listen_at(const std::string& host, const std::string& port) {
  std::string why;
  Socket listener = host.empty() ? Socket() : listen_at_one(host.c_str(), port, why);
  if (!listener.is_open()) listener = listen_at_one(nullptr, port, why);
  if (!listener.is_open()) fail("distributed", {}, "no process can listen at ", host, ":", port, ": ", why);
  return listener;
}
std::string port_of(const Socket& listener) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  char port[NI_MAXSERV] = {};
  if (getsockname(listener.descriptor(), reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&address), length, nullptr, 0, port, sizeof port, NI_NUMERICSERV) != 0)
    return {};
  return port;
}

Socket accept(const Socket& listener, std::chrono::steady_clock::time_point until) {
  while (wait_for(listener.descriptor(), until)) {
    Socket connection(accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.is_open()) {
      prepare(connection);
      return connection;
    }
    std::this_thread::sleep_for(pause);  // the process may have no descriptor left: the connection is still waiting
  }
  return {};
}

Socket connect_to(const std::string& host, const std::string& port, std::chrono::steady_clock::time_point until) {
  for (std::string why;;) {
    const Addresses found = find(host.c_str(), port, 0, why);
    for (const addrinfo* each = found.get(); each; each = each->ai_next) {
      Socket connection = open_for(*each);
      if (connection.is_open() && connect(connection.descriptor(), each->ai_addr, each->ai_addrlen) == 0 &&
          !is_own_peer(connection)) {
        prepare(connection);
        return connection;
      }
      why = last_error();
    }
    if (std::chrono::steady_clock::now() > until)
      fail("distributed", {}, "rank 0 does not answer at ", host, ":", port, ": ", why);
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace weft::runtime
