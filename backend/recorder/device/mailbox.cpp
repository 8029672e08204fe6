#include "backend/recorder/device/mailbox.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "backend/recorder/device/log.h"

namespace shardscope::recorder {
namespace {

constexpr std::size_t longest_content = std::size_t{1} << 20;
constexpr auto longest_wait = std::chrono::minutes(5);
constexpr auto between_looks = std::chrono::milliseconds(1);

/// A folder with a file for each message that is under way; null: nobody runs beside this rank.
const char* folder() {
  static const char* const path = std::getenv("SHARDSCOPE_MAILBOX");
  return path;
}

int own_rank() { return static_cast<int>(setting("RANK", setting("SHARDSCOPE_RANK", 0))); }

/// "all", or "0,8"; null: none.
const char* recorded_ranks() {
  return folder() == nullptr ? nullptr : std::getenv("SHARDSCOPE_RECORDED_RANKS");
}

bool is_recorded(int rank) {
  const char* ranks = recorded_ranks();
  if (ranks == nullptr) return false;
  if (is_everybody_beside()) return true;
  for (const char* place = ranks;; ++place) {
    if (std::atoi(place) == rank) return true;
    place = std::strchr(place, ',');
    if (place == nullptr) return false;
  }
}

/// "GROUP.FROM.TO.NUMBER", numbers from 1.
std::string next_file(const Way& way, std::map<std::string, long>& numbers) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const std::string name =
      way.group + "." + std::to_string(way.from) + "." + std::to_string(way.to);
  return std::string(folder()) + "/" + name + "." + std::to_string(++numbers[name]);
}

[[noreturn]] void give_up(const Way& way, const char* why) {
  std::fprintf(stderr, "shardscope record: rank %d waits for data of rank %d: %s\n", way.to,
               way.from, why);
  end_log();
  constexpr int failed = 1;
  _exit(failed);
}

bool sender_is_gone(int rank) {
  if (rank < 0) return false;
  const std::string path = std::string(folder()) + "/gone." + std::to_string(rank);
  return access(path.c_str(), F_OK) == 0;
}

bool receive(const std::string& path, void* to, std::size_t bytes) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t count = read(file, static_cast<char*>(to) + done, bytes - done);
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  close(file);
  unlink(path.c_str());
  return true;
}

struct Message {
  Way way;
  std::string path;
  void* to;
  std::size_t bytes;
};
struct Awaited {
  std::mutex mutex;
  std::vector<Message> messages;
  std::atomic<bool> are_any = false;
};
/// Never destroyed, as the log.
Awaited& awaited() {
  static Awaited* const all = new Awaited;
  return *all;
}

void take(const Message& message) {
  const auto end = std::chrono::steady_clock::now() + longest_wait;
  for (;;) {
    // What was sent before its sender ended is there.
    const bool is_last = sender_is_gone(message.way.sender);
    if (receive(message.path, message.to, message.bytes)) return;
    if (is_last) give_up(message.way, "that rank has ended");
    if (std::chrono::steady_clock::now() > end) give_up(message.way, "nothing came for 5 minutes");
    std::this_thread::sleep_for(between_looks);
  }
}

/// Those who still wait need not wait for long.
void tell_the_end() {
  static bool is_told = false;
  if (is_told) return;
  is_told = true;
  std::atexit([] {
    const std::string path = std::string(folder()) + "/gone." + std::to_string(own_rank());
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (file >= 0) close(file);
  });
}

}  // namespace

bool is_beside(int rank) { return rank != own_rank() && is_recorded(rank); }

bool is_everybody_beside() {
  const char* ranks = recorded_ranks();
  return ranks != nullptr && std::strcmp(ranks, "all") == 0;
}

void post(const Way& way, const void* content, std::size_t bytes) {
  static std::map<std::string, long> numbers;
  tell_the_end();
  const std::string path = next_file(way, numbers), part = path + ".part";
  const int file = open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) give_up(way, "it cannot be written");
  std::size_t done = 0;
  const std::size_t wanted = bytes <= longest_content ? bytes : 0;
  while (done < wanted) {
    const ssize_t count = write(file, static_cast<const char*>(content) + done, wanted - done);
    if (count <= 0) give_up(way, "it cannot be written");
    done += static_cast<std::size_t>(count);
  }
  close(file);
  std::rename(part.c_str(), path.c_str());
}

void take_later(const Way& way, void* to, std::size_t bytes) {
  static std::map<std::string, long> numbers;
  tell_the_end();
  std::string path = next_file(way, numbers);
  const std::lock_guard lock(awaited().mutex);
  awaited().messages.push_back({way, std::move(path), to, bytes});
  awaited().are_any = true;
}

void take_all() {
  if (folder() == nullptr || !awaited().are_any) return;
  const std::lock_guard lock(awaited().mutex);
  for (const Message& message : awaited().messages) take(message);
  awaited().messages.clear();
  awaited().are_any = false;
}

}  // namespace shardscope::recorder
