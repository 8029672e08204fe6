#include "backend/recorder/device/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "backend/recorder/device/held_lines.h"

namespace shardscope::recorder {
namespace {

constexpr std::size_t piece = std::size_t{8} << 20;  // the file grows by so much
constexpr std::size_t longest_line = 16384, longest_text = std::size_t{1} << 20;

/// Never destroyed: threads of the script may still write while the process ends.
class Log {
 public:
  static Log& get() {
    static Log* log = new Log;
    return *log;
  }

  void append(std::string_view line) {
    const std::lock_guard lock(mutex_);
    if (views_.take(line)) return;
    release_views();
    if (!views_.take(line)) append_in_order(line);
  }

  std::uint32_t text_id(std::string_view text) {
    const std::lock_guard lock(mutex_);
    const auto known = texts_.find(std::string(text));
    if (known != texts_.end()) return known->second;
    const auto id = static_cast<std::uint32_t>(texts_.size());
    by_id_.push_back(&texts_.emplace(text, id).first->first);
    std::string line = "S\t" + std::to_string(id) + "\t";
    for (const char c : text.substr(0, longest_text)) line += c == '\n' || c == '\t' ? ' ' : c;
    append_locked(line + "\n");
    return id;
  }

  std::string text_of(std::uint32_t id) {
    const std::lock_guard lock(mutex_);
    return id < by_id_.size() ? *by_id_[id] : std::string();
  }

  void close() {
    const std::lock_guard lock(mutex_);
    // A child of vfork, which shares this memory, is another process.
    if (file_ < 0 || is_closed_ || owner_ != getpid()) return;
    release_views();
    append_locked(given_back_.lines() + "END\n");
    is_closed_ = true;
    [[maybe_unused]] const int ignored = ftruncate(file_, static_cast<off_t>(used_));
  }

  /// In a child of a fork, which has a log of its own.
  void start_again() {
    new (&mutex_) std::mutex;
    if (begin_ != nullptr) munmap(begin_, reserved_);
    if (file_ >= 0) ::close(file_);
    begin_ = nullptr;
    file_ = -1;
    used_ = reserved_ = 0;
    is_opened_ = is_closed_ = false;
    texts_.clear();
    by_id_.clear();
    given_back_ = {};
    views_ = {};
  }

 private:
  Log() {
    pthread_atfork(nullptr, nullptr, [] { get().start_again(); });
    std::atexit([] { get().close(); });
  }

  void release_views() {
    for (const std::string& line : views_.lines()) append_in_order(line);
  }

  void append_in_order(std::string_view line) {
    if (given_back_.take(line)) return;
    append_locked(given_back_.lines());
    if (!given_back_.take(line)) append_locked(line);
  }

  void append_locked(std::string_view text) {
    if (!is_opened_) open();
    if (file_ < 0 || is_closed_ || text.empty()) return;
    if (used_ + text.size() > reserved_ && !grow(text.size())) return;
    std::memcpy(begin_ + used_, text.data(), text.size());
    used_ += text.size();
  }

  void open() {
    is_opened_ = true;
    owner_ = getpid();
    const char* folder = std::getenv("SHARDSCOPE_RECORD");
    if (folder == nullptr) return;
    const std::string path = std::string(folder) + "/events." + std::to_string(getpid()) + ".txt";
    file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file_ < 0) return complain("cannot write " + path);
    append_locked("V\t2\n");
    if (const char* rank = std::getenv("SHARDSCOPE_RANK"))
      append_locked("0\trank\t" + std::string(rank) + "\t" +
                    std::to_string(setting("SHARDSCOPE_WORLD", 1)) + "\n");
  }

  bool grow(std::size_t wanted) {
    const std::size_t size = reserved_ + std::max(piece, wanted);
    // Reserved, since a write to a hole on a full disk would kill the process.
    if (posix_fallocate(file_, static_cast<off_t>(reserved_),
                        static_cast<off_t>(size - reserved_)) != 0)
      return give_up("the disk is full");
    void* mapped = begin_ == nullptr
                       ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0)
                       : mremap(begin_, reserved_, size, MREMAP_MAYMOVE);
    if (mapped == MAP_FAILED) return give_up("its log cannot be mapped");
    begin_ = static_cast<char*>(mapped);
    reserved_ = size;
    return true;
  }

  bool give_up(const char* why) {
    complain(std::string("the recording ends here: ") + why);
    ::close(file_);
    file_ = -1;
    return false;
  }

  static void complain(const std::string& text) {
    std::fprintf(stderr, "shardscope record: %s\n", text.c_str());
  }

  std::mutex mutex_;
  std::unordered_map<std::string, std::uint32_t> texts_;
  std::vector<const std::string*> by_id_;
  GivenBack given_back_;
  Views views_;
  char* begin_ = nullptr;
  std::size_t used_ = 0, reserved_ = 0;
  int file_ = -1;
  pid_t owner_ = 0;
  bool is_opened_ = false, is_closed_ = false;
};

/// Threads in the order of their first line.
int thread_number() {
  static std::mutex mutex;
  static int count = 0;
  thread_local int number = -1;
  if (number < 0) {
    const std::lock_guard lock(mutex);
    number = count++;
  }
  return number;
}

}  // namespace

void log_line(const char* format, ...) {
  char line[longest_line];
  const int number = std::snprintf(line, sizeof line, "%d\t", thread_number());
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(
      line + number, sizeof line - static_cast<std::size_t>(number) - 1, format, arguments);
  va_end(arguments);
  const auto written = std::min<std::size_t>(static_cast<std::size_t>(number + std::max(0, length)),
                                             sizeof line - 2);
  line[written] = '\n';
  Log::get().append({line, written + 1});
}

std::uint32_t text_id(std::string_view text) { return Log::get().text_id(text); }

std::string text_of(std::uint32_t id) { return Log::get().text_of(id); }

void end_log() { Log::get().close(); }

long setting(const char* name, long usual) {
  const char* text = std::getenv(name);
  return text == nullptr || *text == 0 ? usual : std::atol(text);
}

}  // namespace shardscope::recorder

extern "C" {
/// Python's os._exit, which runs nothing else at its end.
[[gnu::visibility("default"), gnu::noreturn]] void _exit(int status) {
  shardscope::recorder::end_log();
  for (;;) syscall(SYS_exit_group, status);
}
}
