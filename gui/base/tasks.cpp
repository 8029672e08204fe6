#include "gui/base/tasks.h"

#include <QCoreApplication>
#include <QElapsedTimer>
#include <QMetaObject>
#include <algorithm>
#include <exception>
#include <new>
#include <thread>

namespace shardscope::gui {

Tasks::Tasks(QObject* parent) : QObject(parent) {
  pool_.setMaxThreadCount(std::max(2, static_cast<int>(std::thread::hardware_concurrency())));
}

Tasks::~Tasks() {
  all_.request_stop();
  pool_.clear();
  pool_.waitForDone();
}

std::stop_source Tasks::start(QObject* owner, Job job, OnFailure on_failure) {
  std::stop_source own;
  if (in_flight_++ == 0) Q_EMIT idle_changed();
  pool_.start([this, owner = QPointer<QObject>(owner), own, all = all_.get_token(),
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
    QMetaObject::invokeMethod(
        this, [this, owner, own, result] { finish(owner, own.get_token(), result); },
        Qt::QueuedConnection);
  });
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
