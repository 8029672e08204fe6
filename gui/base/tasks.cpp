#include "gui/base/tasks.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <QCoreApplication>
#include <QElapsedTimer>
#include <algorithm>
#include <cstdint>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

namespace shardscope::gui {
namespace {

std::size_t most_threads() { return std::max(2U, std::thread::hardware_concurrency()); }

}  // namespace

Tasks::Tasks(QObject* parent)
    : QObject(parent), posted_signal_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE)) {
  if (posted_signal_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  notifier_ = std::make_unique<QSocketNotifier>(posted_signal_, QSocketNotifier::Read);
  connect(notifier_.get(), &QSocketNotifier::activated, this, &Tasks::call_posted);
}

Tasks::~Tasks() {
  all_.request_stop();
  {
    const std::lock_guard lock(mutex_);
    jobs_.clear();
    ends_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  notifier_.reset();
  close(posted_signal_);
}

void Tasks::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_threads_;
    wake_.wait(lock, [this] { return ends_ || !jobs_.empty(); });
    --idle_threads_;
    if (ends_) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;
    lock.lock();
  }
}

void Tasks::post(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(call));
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(posted_signal_, &one, sizeof one);
}

/// One for each signal, so that an event loop inside a call goes on with the next.
void Tasks::call_posted() {
  std::uint64_t one = 0;
  if (read(posted_signal_, &one, sizeof one) != sizeof one) return;
  std::function<void()> call;
  {
    const std::lock_guard lock(mutex_);
    if (posted_.empty()) return;
    call = std::move(posted_.front());
    posted_.pop_front();
  }
  call();
}

std::stop_source Tasks::start(QObject* owner, Job job, OnFailure on_failure) {
  std::stop_source own;
  if (in_flight_++ == 0) Q_EMIT idle_changed();
  auto run_job = [this, owner = QPointer<QObject>(owner), own, all = all_.get_token(),
                  job = std::move(job), on_failure = std::move(on_failure)] {
    const std::stop_callback passed_on(all, [own]() mutable { own.request_stop(); });
    std::function<void()> result;
    QString failure;
    try {
      if (!own.stop_requested()) result = job(own.get_token());
    } catch (const std::bad_alloc&) {
      failure = tr("out of memory: close other runs, or open fewer ranks");
    } catch (const std::exception& error) {
      failure = QString::fromUtf8(error.what()).simplified();
      if (failure.isEmpty()) failure = tr("an error without a message");
    }
    if (!failure.isEmpty())
      result = [this, failure, on_failure] {
        if (on_failure) return on_failure(failure);
        Q_EMIT failed(failure);
      };
    post([this, owner, own, result] { finish(owner, own.get_token(), result); });
  };
  {
    const std::lock_guard lock(mutex_);
    jobs_.emplace_back(std::move(run_job));
    if (idle_threads_ < jobs_.size() && threads_.size() < most_threads())
      threads_.emplace_back([this] { work(); });
  }
  wake_.notify_one();
  return own;
}

void Tasks::finish(const QPointer<QObject>& owner, const std::stop_token& stop,
                   const std::function<void()>& result) {
  if (owner && result && !stop.stop_requested()) result();
  if (--in_flight_ == 0) Q_EMIT idle_changed();
}

bool Tasks::wait_until_idle(int timeout_ms) {
  QElapsedTimer clock;
  clock.start();
  do {
    QCoreApplication::processEvents(QEventLoop::AllEvents | QEventLoop::WaitForMoreEvents, 10);
    if (clock.elapsed() > timeout_ms) return false;
  } while (!idle());
  return true;
}

}  // namespace shardscope::gui
