// Work beside the UI thread: results come back on it.
#pragma once

#include <QObject>
#include <QPointer>
#include <QSocketNotifier>
#include <QString>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <type_traits>
#include <vector>

namespace shardscope::gui {

/// Runs functions on a pool of threads. `done` is called on the thread that this object lives in,
/// and never once `owner` is gone. Everything in flight is stopped and awaited on destruction.
/// Threads and hand-over are the standard library's, which the thread sanitizer understands; it
/// sees no order in Qt's own, since Debian's Qt is not built for it.
class Tasks : public QObject {
  Q_OBJECT
 public:
  explicit Tasks(QObject* parent = nullptr);
  ~Tasks() override;

  /// `work(stop)` gives a value for `done`; `stop` is the one returned here, which the caller may
  /// request, too. What `work` throws is told in one line by `on_failure`, without it by `failed`.
  /// With neither owner nor tasks destroyed, exactly one of `done` and these follows, unless `stop`
  /// was requested before.
  template <class Work, class Done>
  std::stop_source run(QObject* owner, Work work, Done done,
                       const std::function<void(const QString&)>& on_failure = {}) {
    using Value = std::invoke_result_t<Work, std::stop_token>;
    return start(
        owner,
        [work = std::move(work), done = std::move(done)](std::stop_token stop) {
          auto value = std::make_shared<Value>(work(stop));
          return std::function<void()>([value, done] { done(std::move(*value)); });
        },
        on_failure);
  }

  /// From any thread: calls it on the thread that this object lives in, after what was posted
  /// before.
  void post(std::function<void()> call);

  bool idle() const { return in_flight_ == 0; }
  /// Handles events until nothing is in flight, also nothing that results start. For tests and for
  /// exports; false after `timeout_ms`.
  bool wait_until_idle(int timeout_ms);

 Q_SIGNALS:
  void idle_changed();
  void failed(const QString& message);  ///< one line

 private:
  using Job = std::function<std::function<void()>(std::stop_token)>;
  using OnFailure = std::function<void(const QString&)>;
  std::stop_source start(QObject* owner, Job job, OnFailure on_failure);
  void finish(const QPointer<QObject>& owner, const std::stop_token& stop,
              const std::function<void()>& result);

  void work();
  void call_posted();

  std::stop_source all_;
  int in_flight_ = 0;
  int posted_signal_ = -1;  ///< an eventfd that counts `posted_`
  std::unique_ptr<QSocketNotifier> notifier_;

  std::mutex mutex_;  ///< of what follows
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_, posted_;
  std::size_t idle_threads_ = 0;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace shardscope::gui
