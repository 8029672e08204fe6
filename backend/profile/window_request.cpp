#include "backend/profile/window_request.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "backend/base/file_descriptor.h"
#include "backend/base/process_identity.h"
#include "backend/base/time_limit.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/format/is_there.h"
#include "core/format/json_reader.h"
#include "core/native/most_profiled_steps.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr std::int64_t largest_request_bytes = 1 << 16;
/// Longest wait for another who asks, who holds the lock for two file operations.
constexpr milliseconds wait_for_lock{2000};

fs::path request_path(const fs::path& folder) { return folder / "profile.request"; }

/// Among those who ask, one at a time changes the request. Rank 0 takes it without: a training run
/// waits for nobody.
class AskersLock {
 public:
  explicit AskersLock(const fs::path& folder)
      : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    const TimeLimit limit(wait_for_lock);
    while (::flock(folder_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) fail(folder, errno_text("flock"));
      if (limit.passed()) fail(folder, "another process is asking, and does not get on");
      std::this_thread::sleep_for(milliseconds(5));
    }
  }

 private:
  [[noreturn]] static void fail(const fs::path& folder, const std::string& what) {
    throw Error({.where = folder.string(),
                 .what = what,
                 .way_out = "ask again, or send SIGUSR1 to a rank",
                 .code = ExitCode::outside});
  }

  FileDescriptor folder_;  ///< the lock goes with it
};

WindowRequest read_request(const fs::path& path) {
  const JsonValue file = JsonValue::read_file(path, DuplicateKeys::refuse, largest_request_bytes);
  return {.id = file.at("id").string(),
          .steps = static_cast<int>(file.at("steps").integer(1, most_profiled_steps))};
}

/// "" where there is none, and of what is no request.
std::string id_of_request(const fs::path& path) {
  try {
    return is_there(path) ? read_request(path).id : "";
  } catch (const Error&) {
    return "";  // taken in between, or nobody's
  }
}

/// Who asks has reached rank 0, and so is on its host, as we are.
bool is_waited_for(const std::string& id) {
  const SignalOutcome outcome = signal_process(id, 0);
  return outcome == SignalOutcome::sent || outcome == SignalOutcome::refused;
}

}  // namespace

bool leave_request(const fs::path& run_folder, const WindowRequest& request) {
  const fs::path path = request_path(run_folder);
  const AskersLock lock(run_folder);
  if (is_waited_for(id_of_request(path))) return false;
  const nlohmann::ordered_json json{{"id", request.id}, {"steps", request.steps}};
  write_atomically(path, json.dump() + "\n");
  return true;
}

void withdraw_request(const fs::path& run_folder, const std::string& id) {
  const fs::path path = request_path(run_folder);
  const AskersLock lock(run_folder);
  std::error_code ignored;
  if (id_of_request(path) == id) fs::remove(path, ignored);
}

std::optional<WindowRequest> take_request(const fs::path& run_folder) {
  const fs::path path = request_path(run_folder);
  if (!is_there(path)) return std::nullopt;
  // First out of the way of the next one, which is not to be removed unread.
  const fs::path taken = run_folder / ".profile.request.taken";
  std::error_code error;
  fs::rename(path, taken, error);
  if (error) return std::nullopt;  // withdrawn in between
  std::optional<WindowRequest> request;
  try {
    request = read_request(taken);
  } catch (const Error& unread) {
    fmt::print(stderr, "a request for a window is not followed: {}\n", unread.what());
  }
  fs::remove(taken, error);
  return request;
}

void drop_requests(const fs::path& run_folder) {
  std::error_code ignored;
  fs::remove(request_path(run_folder), ignored);
}

}  // namespace shardscope
