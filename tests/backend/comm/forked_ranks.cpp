#include "tests/backend/comm/forked_ranks.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <ostream>
#include <stdexcept>

#include "backend/base/file_descriptor.h"
#include "backend/rendezvous/tcp_store_server.h"

namespace shardscope::testing {
namespace {

int outcome_of(const std::function<ExitCode(const Environment&)>& body, const Environment& place,
               std::string* message) {
  try {
    return static_cast<int>(body(place));
  } catch (const Error& error) {
    *message = error.what();
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    *message = error.what();
    return 99;
  }
}

struct Child {
  pid_t id = 0;
  FileDescriptor messages;
};

Child start(const Environment& place, const std::function<ExitCode(const Environment&)>& body) {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  const pid_t id = ::fork();
  if (id == 0) {
    std::signal(SIGINT, SIG_DFL);  // ignored where the tests run in the background
    std::string message;
    const int code = outcome_of(body, place, &message);
    [[maybe_unused]] const ssize_t written = ::write(ends[1], message.data(), message.size());
    // The exit handlers of the test program are the parent's.
    ::_exit(code);
  }
  ::close(ends[1]);
  return {id, FileDescriptor(ends[0])};
}

}  // namespace

void PrintTo(const RankOutcome& outcome, std::ostream* out) {
  *out << "exit code " << outcome.exit_code << ", signal " << outcome.signal << ", \""
       << outcome.message << '"';
}

std::vector<RankOutcome> run_ranks(int ranks,
                                   const std::function<ExitCode(const Environment&)>& body) {
  const int port = free_port();
  std::vector<Child> children;
  for (int rank = 0; rank < ranks; ++rank) {
    Environment place;
    place.rank = place.local_rank = rank;
    place.world = place.local_world = ranks;
    place.meeting_point.port = port;
    children.push_back(start(place, body));
  }
  std::vector<RankOutcome> outcomes;
  for (Child& child : children) {
    RankOutcome outcome;
    char bytes[1024];
    while (true) {
      const ssize_t got = ::read(child.messages.get(), bytes, sizeof bytes);
      if (got <= 0) break;
      outcome.message.append(bytes, static_cast<std::size_t>(got));
    }
    int status = 0;
    ::waitpid(child.id, &status, 0);
    if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
    if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
    outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

int free_port() {
  // Below those that systems give to whoever asks for any, so that nobody gets it in between; each
  // of the test programs that run at once looks elsewhere.
  constexpr int first = 20000, count = 12000, apart = 16;
  static int asked = 0;
  for (int i = 0; i < count; ++i) {
    const int port = first + (::getpid() % count * apart + asked++) % count;
    try {
      return ListeningSocket(ListeningSocket::Reach::loopback, port).port();
    } catch (const Error&) {  // somebody else's
    }
  }
  throw std::runtime_error("no port is free");
}

}  // namespace shardscope::testing
